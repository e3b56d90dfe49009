// Parameters that one rank has of a stage, with their gradients and its share of the optimizer's
// state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// A piece of a Hugging Face tensor that several ranks hold in pieces: [from, from + size) of one
/// dimension. They are tensor-parallel, or all ranks of a pipeline.
struct TensorPiece {
  std::int64_t dimension = 0;
  std::int64_t from = 0;
  std::int64_t size = 0;
  std::int64_t whole = 0;      ///< of that dimension
  std::int32_t copies = 1;     ///< neighbouring ranks that hold the same piece
  bool over_pipeline = false;  ///< of a vocabulary that is spread
  [[nodiscard]] at::Tensor of(const at::Tensor& tensor) const {
    return tensor.narrow(dimension, from, size);
  }
};

/// One Hugging Face tensor inside a Parameter: the rank's piece of it is rows [begin, begin + rows)
/// of dimension 0.
struct ParameterPart {
  std::string name;
  TensorPiece piece;
  std::int64_t begin = 0;
  std::int64_t rows = 0;
};

/// A trained tensor: views into its bucket. Tensors that are always used together (q, k and v; gate
/// and up) are one Parameter, so that they are one matrix product; `parts` gives them their public
/// names.
struct Parameter {
  at::Tensor value;     ///< compute type
  at::Tensor gradient;  ///< accumulate type; sum over the step
  /// The head of a tied model on another stage than the embedding: kept equal to it, neither saved
  /// nor counted in the gradient norm.
  bool tied_copy = false;
  std::vector<ParameterPart> parts;
  std::size_t bucket = 0;  ///< of StageParameters::buckets
  std::int64_t begin = 0;  ///< of its elements there

  [[nodiscard]] bool defined() const { return value.defined(); }
};

/// Parameters whose gradients are final at the same time, laid end to end in one piece of memory: a
/// bucket is reduced over replicas and updated at once. Each replica owns one shard of the
/// optimizer's state (ZeRO-1, arXiv:1910.02054). Gaps between parameters, for alignment, hold zeros
/// and stay so.
struct ParameterBucket {
  /// Elements that are treated alike.
  struct Stretch {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool decay = false;
    bool counted = true;      ///< in the gradient norm
    std::int32_t copies = 1;  ///< neighbouring tensor-parallel ranks, each with a part of its sum
  };

  at::Tensor values_N;     ///< compute type
  at::Tensor gradients_N;  ///< accumulate type
  std::vector<Stretch> stretches;
  Shard shard;           ///< the replica's; what follows is of it alone, in the accumulate type
  at::Tensor masters_S;  ///< a view of the values unless bf16
  at::Tensor first_moments_S;
  at::Tensor second_moments_S;
};

/// Biases, q/k norms and the router are undefined where the shape has none.
struct LayerParameters {
  Parameter attention_norm_H;
  Parameter qkv_OH;  ///< rows: q, k, v
  Parameter qkv_bias_O;
  Parameter q_norm_D;
  Parameter k_norm_D;
  Parameter output_HQ;
  Parameter output_bias_H;
  Parameter mlp_norm_H;
  Parameter router_EH;   ///< of experts
  Parameter gate_up_OH;  ///< rows: gate, up; of experts those of each in turn
  Parameter gate_up_bias_O;
  Parameter down_HF;  ///< likewise
  Parameter down_bias_H;
};

struct StageParameters {
  std::vector<LayerParameters> layers;
  /// Where the vocabulary is spread, the embedding is on the first stage of every rank and the head
  /// on the last, each a part, but for a tied head: that is the embedding.
  Parameter embedding_VH;  ///< first stage
  Parameter final_norm_H;  ///< last stage
  Parameter head_VH;       ///< last stage; undefined when tied on a single stage
  /// In the order in which backward completes their gradients: head and final norm, the layers from
  /// the last to the first, the embedding.
  std::vector<ParameterBucket> buckets;

  /// The matrix of the head on the last stage: head_VH, or the embedding when tied on one stage.
  [[nodiscard]] Parameter& head() { return head_VH.defined() ? head_VH : embedding_VH; }

  [[nodiscard]] at::Device device() const { return buckets.front().values_N.device(); }

  /// Calls `visit` for every defined parameter, in a fixed order.
  void for_each(const std::function<void(Parameter&)>& visit);
};

/// Overwrites rows of dimension 0 of a parameter from `row` on, values and masters.
/// REQUIRES: the parameter's bucket; rows that fit.
void assign(ParameterBucket& bucket, const Parameter& parameter, std::int64_t row,
            const at::Tensor& rows);

/// Overwrites the replica's share of one state in such rows. `state_S`: the bucket's masters or
/// moments.
void assign_state(const ParameterBucket& bucket, at::Tensor& state_S, const Parameter& parameter,
                  std::int64_t row, const at::Tensor& rows);

/// Every tensor of the model by its public name, and its sizes. Allocates no tensor.
[[nodiscard]] std::map<std::string, std::vector<std::int64_t>> tensor_sizes(const Decoder& shape);

/// Allocates and initialises what the rank at `place` holds of one of its stages: matrices
/// normal(0, initializer_range) from a generator seeded by (seed, Hugging Face name), so that the
/// weights do not depend on the grid; norms 1, biases 0; gradients and moments 0. REQUIRES: the
/// grid has the layout's stages.
[[nodiscard]] StageParameters make_stage_parameters(const Decoder& shape, Dtype dtype,
                                                    const StageLayout& layout, const RankGrid& grid,
                                                    const RankPlace& place, StageId stage,
                                                    std::uint64_t seed,
                                                    at::Device device = at::Device(at::kCPU));

/// Parameters of the stage without tied copies, those of all its tensor-parallel ranks together.
[[nodiscard]] std::int64_t parameter_count(StageParameters& parameters);

}  // namespace slimpack
