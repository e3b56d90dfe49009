// Parameters of one pipeline stage, with their gradients and optimizer state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

/// One Hugging Face tensor inside a Parameter: rows [begin, begin + rows) of dimension 0.
struct ParameterPart {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t rows = 0;
};

/// A trained tensor. Tensors that are always used together (q, k and v; gate and up) are one
/// Parameter, so that they are one matrix product; `parts` gives them their public names.
struct Parameter {
  at::Tensor value;     ///< compute type
  at::Tensor gradient;  ///< accumulate type; sum over the step
  at::Tensor master;    ///< accumulate type; the same tensor as `value` unless bf16
  at::Tensor first_moment;
  at::Tensor second_moment;
  bool decay = false;
  /// The head of a tied model on another stage than the embedding: kept equal to it, neither saved
  /// nor counted in the gradient norm.
  bool tied_copy = false;
  std::vector<ParameterPart> parts;

  [[nodiscard]] bool defined() const { return value.defined(); }
};

/// Biases and q/k norms are undefined where the shape has none.
struct LayerParameters {
  Parameter attention_norm_H;
  Parameter qkv_OH;  ///< rows: q, k, v
  Parameter qkv_bias_O;
  Parameter q_norm_D;
  Parameter k_norm_D;
  Parameter output_HQ;
  Parameter output_bias_H;
  Parameter mlp_norm_H;
  Parameter gate_up_OH;  ///< rows: gate, up
  Parameter gate_up_bias_O;
  Parameter down_HF;
  Parameter down_bias_H;
};

struct StageParameters {
  std::vector<LayerParameters> layers;
  Parameter embedding_VH;  ///< first stage
  Parameter final_norm_H;  ///< last stage
  Parameter head_VH;       ///< last stage; undefined when tied on a single stage

  /// The matrix of the head on the last stage: head_VH, or the embedding when tied on one stage.
  [[nodiscard]] Parameter& head() { return head_VH.defined() ? head_VH : embedding_VH; }

  /// Calls `visit` for every defined parameter, in a fixed order.
  void for_each(const std::function<void(Parameter&)>& visit);
};

/// Allocates and initialises the parameters of stage `stage`: matrices normal(0, initializer_range)
/// from a generator seeded by (seed, Hugging Face name), so that the weights do not depend on the
/// number of stages; norms 1, biases 0; gradients and moments 0.
[[nodiscard]] StageParameters make_stage_parameters(const ModelShape& shape, Dtype dtype,
                                                    const StageLayout& layout, StageId stage,
                                                    std::uint64_t seed);

/// Parameter count without tied copies.
[[nodiscard]] std::int64_t parameter_count(StageParameters& parameters);

}  // namespace slimpack
