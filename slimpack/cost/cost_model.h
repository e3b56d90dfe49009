// Cost model: FLOPs and seconds of slices and MicroPacks on each stage, by pass.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder_shape.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// per_pack + per_token·tokens: embedding, head and loss.
struct EdgeTime {
  double per_pack = 0;
  double per_token = 0;

  bool operator==(const EdgeTime&) const = default;
};

/// Extra time of a decoder layer when a group of replicas runs a MicroPack together by context
/// parallelism; `per_token` counts the whole MicroPack's tokens, those of all members.
struct MergeTime {
  EdgeTime forward;
  EdgeTime backward;

  bool operator==(const MergeTime&) const = default;
};

/// Times of a decoder layer of one kind.
struct LayerCosts {
  PackCost forward;
  PackCost backward;  ///< of Recompute::kElementwise; backward_time has the others
  /// The part of `backward` that computes norms and silu(gate) ⊙ up again: what
  /// Recompute::kNothing saves; no part of `weight_gradient`. Zero = not known.
  EdgeTime elementwise;
  /// The part of `backward` that only computes gradients of a decoder layer's weights, by pack and
  /// token: what a split backward may put off. Zero = not known, backward is not split.
  EdgeTime weight_gradient;
  /// Entry k: a MicroPack that 2^(k+1) replicas run together. Empty = no merging is known.
  std::vector<MergeTime> merge;

  bool operator==(const LayerCosts&) const = default;
};

/// Everything that turns slices into time, for one model shape and number format on one machine.
/// Times are nanoseconds. A stage is run by `tp` tensor-parallel ranks at once; times are theirs.
/// The layer times that it is itself are those of the model's layers; where these differ, of the
/// first kind (DecoderShape::kinds).
struct Costs : LayerCosts {
  std::vector<LayerCosts> more_kinds;  ///< of the kinds of layers after the first
  std::string source;  ///< what it came from, for people: "profile of …", "hardware"
  DecoderShape shape;
  Dtype dtype = Dtype::kFp32;
  std::int32_t tp = 1;  ///< layer times are one rank's of so many, their collectives included
  /// Activation bytes of a token and layer on one rank where another runtime's accounting replaces
  /// the memory model's (then nothing else counts but the operands of put-off weight gradients, in
  /// proportion); of Recompute::kElementwise, others in proportion; 0 = the memory model.
  double row_bytes = 0;
  EdgeTime embedding_forward;          ///< first stage, forward
  EdgeTime embedding_backward;         ///< first stage, backward
  EdgeTime head_backward;              ///< last stage: final norm, head, loss and their gradients
  double optimizer_per_parameter = 0;  ///< of the stage's; its tp ranks update 1/tp of them each
  double transfer_latency = 0;
  double transfer_per_byte = 0;  ///< of the stage's whole output; its tp ranks send 1/tp each
  /// Between a rank's device and pinned host memory, either way; 0 = not known, and then no rows
  /// are offloaded.
  double host_per_byte = 0;
  /// Gradient reduction between replicas: of each step of the ring, and of each byte that one rank
  /// sends (a rank holds the gradients of 1/tp of its stage's parameters).
  double reduce_latency = 0;
  double reduce_per_byte = 0;
  Bytes memory{0};                     ///< of one rank; 0 = not known
  double peak_flops = 0;               ///< FLOP/s of one rank, MFU's denominator; 0 = not known
  std::int32_t replicas_per_node = 0;  ///< of one stage, tp ranks each; 0 = not known
  double fit_error =
      0;  ///< largest relative error of the fit over its measurements; 0 = not fitted

  bool operator==(const Costs&) const = default;
};

/// The same with a recomputation chosen, which times of stages and the memory model follow.
struct RecomputingCosts : Costs {
  RecomputeByLayer recompute = {};  ///< by layer of the model

  bool operator==(const RecomputingCosts&) const = default;
};

/// Of a layer of this kind. REQUIRES: kind < cost.shape.num_kinds().
[[nodiscard]] const LayerCosts& layer_costs(const Costs& cost, std::size_t kind);

/// Model FLOPs (a multiply-add is 2): matrix products and causal attention; norms and the like not.
/// REQUIRES: kForward or kBackward.
/// Backward linear work is 2 ×, backward attention 2.5 × forward (FlashAttention's recomputation).
/// Of experts those count that a token is sent to.
[[nodiscard]] Flops layer_linear_flops(const LayerShape& layer, Tokens tokens, Pass pass);
[[nodiscard]] Flops layer_attention_flops(const LayerShape& layer, double pairs, Pass pass);
[[nodiscard]] Flops head_flops(const ModelShape& shape, Tokens tokens, Pass pass);
/// Forward and backward of a whole step; MFU's numerator (attention backward counted 2 ×).
[[nodiscard]] Flops model_flops(const DecoderShape& shape, const SequenceLengths& lengths);

/// Times of a job whose stages are `tp` tensor-parallel ranks (with sequence sharding) in each of
/// `most_replicas` replicas. Neighbouring ranks hold a stage's tp ranks, then its replicas; so
/// groups that fit a node use its links, all else and every stage boundary the network. `merge` has
/// groups of 2, 4, … up to most_replicas. Throws InvalidInput unless tp divides heads and experts.
/// Experts are spread over the tp ranks, which exchange the tokens.
[[nodiscard]] Costs cost_from_hardware(const DecoderShape& shape, Dtype dtype,
                                       const HardwareSpec& hardware, std::int32_t tp = 1,
                                       std::int32_t most_replicas = 1);

/// What a MicroPack takes on all layers of the stage and its edges. Where `replicas` run it
/// together, each has its share of the slices' terms, and the exchanges whole. Throws InvalidInput
/// when the cost model knows no merging of as many. REQUIRES: kForward or kBackward.
[[nodiscard]] PackCost stage_cost(const RecomputingCosts& cost, const StageLayout& layout,
                                  StageId stage, Pass pass, std::int32_t replicas = 1);

/// Layers per stage such that the most loaded stage (embedding and head included) is as light as
/// possible for these lengths, forward and backward together and without per-pack terms. Of equally
/// loaded stages the later one gets the layer, because earlier stages hold more activations.
/// Throws InvalidInput unless 1 ≤ stages ≤ layers. Cost, after one pass over the lengths:
/// O(layers · stages), or O(layers² · stages) where layers differ.
[[nodiscard]] StageLayout balanced_layout(const Costs& cost, const SequenceLengths& lengths,
                                          std::int32_t stages);

/// Of layers that compute again what `recompute` says. REQUIRES: a policy for every layer of the
/// model, or none.
[[nodiscard]] RecomputingCosts with_recompute(const Costs& cost, RecomputeByLayer recompute);
[[nodiscard]] RecomputingCosts with_recompute(const Costs& cost, Recompute everywhere);
/// It is chosen once.
void with_recompute(const RecomputingCosts& cost, RecomputeByLayer recompute) = delete;
void with_recompute(const RecomputingCosts& cost, Recompute everywhere) = delete;

/// All whose times the model knows: without host_per_byte not kOffload.
[[nodiscard]] std::vector<Recompute> known_recomputations(const Costs& cost);

/// Backward of a layer that computes `recompute` again: the share of the forward's linear time that
/// its matrix products have, attention where it is not kept, and the overhead per MicroPack, whole
/// for kFull and half otherwise; for kNothing less cost.elementwise; for kOffload with what
/// exposed_transfer says. Weight gradients take what they took: what is computed again, input
/// gradients need first.
[[nodiscard]] PackCost backward_time(const Costs& cost, Recompute recompute, std::size_t kind = 0);
/// What a token waits for the rows of a layer that offloads them: they travel while the layer after
/// theirs runs, and what that takes by token hides them. Attention would hide more; a backward that
/// is split, less by what it puts off. Neither is counted.
[[nodiscard]] double exposed_transfer(const Costs& cost, Pass pass, std::size_t kind = 0);
/// The rest of a transfer, which a layer next to it would hide: what a token waits besides where a
/// stage's last layer offloads. Forward sends its rows, and backward fetches them, when no layer
/// runs; backward of the last stage fetches them while the head does.
[[nodiscard]] double uncovered_transfer(const Costs& cost, Pass pass, bool last_stage,
                                        std::size_t kind = 0);
/// Whether attention runs again, with its exchange where a MicroPack is merged.
[[nodiscard]] bool attends_again(Recompute recompute);

/// Layers of a stage of one kind, by what they compute again in the order of the enumeration.
[[nodiscard]] std::array<std::int32_t, kRecomputations> layers_by_recompute(
    const RecomputingCosts& cost, const StageLayout& layout, StageId stage, std::size_t kind = 0);

/// cost.weight_gradient of all layers of a stage.
[[nodiscard]] EdgeTime stage_weight_gradient(const Costs& cost, const StageLayout& layout,
                                             StageId stage);

/// Where a replica stands in its job.
struct Replication {
  std::int32_t replicas =
      1;  ///< gradients are reduced over them, the optimizer is sharded (ZeRO-1)
  std::span<const double> speed = {};  ///< by stage, 1 = as the cost model says; empty = all 1
};

/// Every time that the schedule and the simulator need, rounded to nanoseconds. Transfers carry one
/// hidden state of the run's number format per token. A merged MicroPack takes a replica its share
/// of the slices' terms and the exchange of queries and outputs. Gradients are reduced in a ring,
/// in the accumulate type; updated parameters are gathered in the run's number format. Throws
/// InvalidInput when the cost model knows no merging of as many replicas as a pack has, and for
/// times that could not be added up in 64 bits. Cost: O(slices + stages · packs).
[[nodiscard]] TaskTimes task_times(const RecomputingCosts& cost, const StageLayout& layout,
                                   const PackPlan& packs, const Replication& replication = {});

/// Parameters that a stage holds, all its tensor-parallel ranks together.
[[nodiscard]] std::int64_t stage_parameters(const DecoderShape& shape, const StageLayout& layout,
                                            StageId stage);

/// Cost file: JSON with "format": "slimpack-cost" and "version": 2. Reading checks every field and
/// throws InvalidInput naming `origin`; files of version 1 know too little and are refused. Without
/// "weight_gradient" backward is not split; without "elementwise" keeping everything saves no time;
/// without "host_per_byte" nothing is offloaded.
[[nodiscard]] std::string cost_to_json(const Costs& cost);
[[nodiscard]] Costs cost_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
