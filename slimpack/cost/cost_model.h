// Cost model: FLOPs and seconds of slices and MicroPacks on each stage, by pass.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/autograd_costs.h"
#include "slimpack/cost/gpu_memory.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/cost/trained_part.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// Extra nanoseconds of a slice: a constant, and for each token of its prefix (within the window of
/// layers that have one).
struct SliceTime {
  double per_slice = 0;
  double per_prefix_token = 0;
  double per_window_prefix = 0;

  bool operator==(const SliceTime&) const = default;
};

/// Extra time of a decoder layer when a group of replicas runs a MicroPack together by context
/// parallelism. `per_token` is multiplied by the tokens of the whole MicroPack, slices count whole.
/// A profile measures what is not hidden: constants in the first two, and all else, with what
/// slices add, as travel.
struct MergeTime {
  EdgeTime forward;
  EdgeTime backward;
  SliceTime forward_slice = {};
  SliceTime backward_slice = {};
  Travel forward_travel = {};
  Travel backward_travel = {};

  bool operator==(const MergeTime&) const = default;
};

/// The time of rows that move between replicas (remapping, MicroPack::row_zones): of each exchange,
/// and of a byte that a member sends or gets inside its node and between nodes.
struct RowMoveTime {
  double latency = 0;
  double inside = 0;
  double outside = 0;

  bool operator==(const RowMoveTime&) const = default;
};

/// The time that backward takes in addition where it computes products again, without attention.
struct AgainTimes {
  EdgeTime attention, mlp, full;  ///< with Recompute::kAttention, kMlp and kFull

  bool operator==(const AgainTimes&) const = default;
};

/// Times of a decoder layer of one kind.
struct LayerCosts {
  PackCost forward = {};
  PackCost backward = {};  ///< with Recompute::kElementwise; others: backward_time
  /// The part of forward.per_pack that reads the weights. What computes products again reads the
  /// weights of these again. 0 = not known: per_pack counts as overhead.
  double weight_reading = 0;
  /// The time that `backward` takes beyond a backward with Recompute::kNothing, which keeps 1 / rms
  /// of norms and silu(gate) ⊙ up. `weight_gradient` does not include it. Zero = not known.
  EdgeTime elementwise = {};
  /// The part of `backward` that only computes gradients of a decoder layer's weights. A split
  /// backward may put it off. Zero = not known, backward is not split.
  EdgeTime weight_gradient = {};
  /// Set by a profile; not set: backward_time takes forward's times.
  std::optional<AgainTimes> again = std::nullopt;
  /// Entry k: a MicroPack that 2^(k+1) replicas run together. Empty = no merging is known.
  std::vector<MergeTime> merge = {};

  bool operator==(const LayerCosts&) const = default;
};

/// Nanoseconds of the model's ends.
struct EndCosts {
  EdgeTime embedding_forward;   ///< first stage, forward
  EdgeTime embedding_backward;  ///< first stage, backward
  EdgeTime head_backward;  ///< last stage: final norm, head, loss and their gradients of targets
  /// Share of the tokens behind another one that are targets, in every MicroPack alike. Tokens
  /// whose next one the loss does not count need no head.
  double target_share = 1;

  /// head_backward of MicroPacks that hold other tokens, too.
  [[nodiscard]] EdgeTime head() const {
    return {head_backward.per_pack, head_backward.per_token * target_share};
  }
  bool operator==(const EndCosts&) const = default;
};

/// Nanoseconds of a message: of each message, and of each of its bytes.
struct MessageTime {
  double latency = 0;
  double per_byte = 0;

  bool operator==(const MessageTime&) const = default;
};

/// The host of a rank, which is a node of the job.
struct HostCosts {
  std::int32_t ranks_per_node = 0;  ///< 0 = not known: one node holds all
  /// Between a rank's device and pinned host memory, in either direction; 0 = not known, no rows
  /// are offloaded.
  double per_byte = 0;
  /// Offloaded rows of one rank in pinned host memory at a time, at most (pinnable()); 0 = no
  /// limit.
  Bytes memory{0};
  /// An optimizer whose states are in host memory takes so many nanoseconds for a parameter, the
  /// ways of gradients and weights included; 0 = not known.
  double optimizer_per_parameter = 0;
  /// A rank's optimizer has so many bytes of a parameter there (with_optimizer_on_host).
  double state_per_parameter = 0;

  bool operator==(const HostCosts&) const = default;
};

/// The device of one rank.
struct RankDevice {
  Bytes memory{0};                              ///< 0 = not known
  std::optional<GpuMemory> gpu = std::nullopt;  ///< set: each rank is a process with its own GPU
  double peak_flops = 0;                        ///< FLOP/s, MFU's denominator; 0 = not known

  bool operator==(const RankDevice&) const = default;
};

/// The conditions, besides the job, that measured times depend on. The times say nothing about
/// other conditions.
struct MeasuredOn {
  std::string processor;  ///< as the system names it
  std::string device;     ///< "cpu", or a kind of GPU and its memory
  std::string torch;      ///< its version

  bool operator==(const MeasuredOn&) const = default;
};

/// The source of the costs, and how well they fit what was measured there.
struct CostOrigin {
  std::string source;         ///< for people: "profile of …", "hardware"
  double fit_error = 0;       ///< FitErrors::largest of the fit; 0 = not fitted
  double held_out_error = 0;  ///< FitErrors::mean on MicroPacks that no fit used; 0 = none
  std::optional<MeasuredOn> measured_on = std::nullopt;  ///< not set: times come from elsewhere
  std::string measured_for = {};  ///< settings of the profile (ProfileOptions); empty = not known

  bool operator==(const CostOrigin&) const = default;
};

/// Everything that turns slices into time, for one model shape and number format on one machine: a
/// plain value, which is read or fitted, and bound to stages by stage_table(). Times are
/// nanoseconds. A stage is run by `tp` tensor-parallel ranks at once; times are theirs.
struct Costs {
  Decoder shape;
  Dtype dtype = Dtype::kFp32;
  std::int32_t tp = 1;  ///< layer times are one rank's of so many, their collectives included
  std::vector<LayerCosts> kinds{LayerCosts()};  ///< by kind of layer, as Decoder::kinds
  EndCosts ends;
  double optimizer_per_parameter = 0;  ///< of the stage; each of its tp ranks updates 1/tp of them
  /// Messages between stages: a stage's whole output, of which each of its tp ranks sends 1/tp.
  /// Where a rank sends to two stages, both directions share its link.
  MessageTime transfer;
  /// Exchanges of gradients and parameters between replicas: time per round (reduction.h), and per
  /// byte that one rank sends. A rank holds the gradients of 1/tp of its stage's parameters.
  MessageTime reduction;
  RowMoveTime row_moves;
  /// How replicas exchange rows of a MicroPack that they share.
  CpCommType cp_comm_type = CpCommType::kDirect;
  std::int32_t zero = 1;  ///< what replicas share out (ParallelGrid::zero)
  /// Replicas share weights and the optimizer's states out between steps: of layers under autograd
  /// alone. A step gathers weights once, and has the gradients whole. With `zero` 3 every pass
  /// gathers them layer by layer and sums gradients, whatever this says.
  bool shard_replicas = false;
  HostCosts host;
  RankDevice device;
  CostOrigin origin;
  /// Set: the layers are the model's own, under autograd. Then recomputations are kNothing,
  /// kElementwise, kFull and kOffload, any other counts as kFull; nothing is merged or split.
  std::optional<AutogradCosts> autograd;
  /// Set: all other parameters are frozen, and `kinds` and `ends` have no times of their gradients.
  /// A counted shape (Decoder::edges) includes these parameters; any other shape is that of the
  /// frozen model, beside which they are.
  std::optional<TrainedPart> trained;
  /// Activation bytes of a token and layer on one rank where another runtime's accounting replaces
  /// the memory model's (then nothing else counts but the operands of put-off weight gradients, in
  /// proportion); of Recompute::kElementwise, others in proportion; 0 = the memory model.
  double row_bytes = 0;

  bool operator==(const Costs&) const = default;
};

/// FLOPs of one pass (a multiply-add is 2): matrix products and causal attention, without norms and
/// the like. Backward has 2 × the forward's linear work and 2.5 × its attention (FlashAttention
/// computes scores again). Counts the experts that a token is sent to. REQUIRES: kForward or
/// kBackward.
[[nodiscard]] Flops layer_linear_flops(const LayerShape& layer, Tokens tokens, Pass pass);
[[nodiscard]] Flops layer_attention_flops(const LayerShape& layer, double pairs, Pass pass);
/// Products of tokens with the layer's recurrent state, as if token by token: kernels that take
/// blocks of tokens have more.
[[nodiscard]] Flops layer_state_flops(const LayerShape& layer, Tokens tokens, Pass pass);
[[nodiscard]] Flops head_flops(const Decoder& shape, Tokens tokens, Pass pass);
/// Forward and backward FLOPs of a whole step, MFU's numerator. Backward attention counts 2 ×. The
/// head counts on targets alone. Frozen weights have no gradients.
[[nodiscard]] Flops model_flops(const Costs& cost, const SequenceLengths& lengths);

/// MFU: model_flops of steps ÷ (their time · the job's ranks · a rank's peak). Absent where the
/// peak is 0.
[[nodiscard]] std::optional<double> mfu_of(Flops flops, Nanos time, std::int64_t ranks,
                                           double peak_flops);

/// Costs of a job with `tp` tensor-parallel ranks (with sequence sharding) for each stage and
/// replica, `most_replicas` replicas and `stages` stages. NodePlacement says where ranks stand:
/// groups that no node divides use the node's links, others the network; if any stage boundary
/// crosses nodes, all count as the network's. `merge` has groups of 2, 4, … up to most_replicas.
/// Experts are spread over the tp ranks, which exchange the tokens. `context`: how replicas that
/// share sequences exchange rows. Layers with states are those of slimpack.torch.pipeline, so a
/// model that has some gets costs of layers under autograd, of a shape that is counted. Throws
/// InvalidInput unless tp divides heads and experts, and is 1 where layers have states.
[[nodiscard]] Costs cost_from_hardware(const Decoder& shape, Dtype dtype,
                                       const HardwareSpec& hardware, std::int32_t tp = 1,
                                       std::int32_t most_replicas = 1, std::int32_t stages = 1,
                                       const ContextParallel& context = {});

/// Costs of cost_from_hardware where the model is frozen, and adapters (LoRA) of this rank are
/// trained on every linear map of its layers, as PEFT's target_modules="all-linear" adds them, in
/// the accumulate type. `rank` is above 0. Throws InvalidInput for a rank beyond the hidden size
/// and for models with experts, of which each family adapts other maps.
[[nodiscard]] Costs with_adapters(Costs cost, std::int64_t rank, const HardwareSpec& hardware);

/// Costs of cost_from_hardware where each rank has a GPU. Where fused kernels run
/// (LayerWidths::run_on), the head's blocks are larger, and layers that keep everything save
/// nothing.
[[nodiscard]] Costs with_gpu(Costs cost, const HardwareSpec& hardware);

/// Costs of a run whose optimizer has its states in host memory. REQUIRES: cost.autograd, and that
/// host.optimizer_per_parameter is known.
[[nodiscard]] Costs with_optimizer_on_host(Costs cost);

/// Costs that were measured where messages take no time, with the time that they take over links:
/// those of cost_from_hardware.
[[nodiscard]] Costs with_links(Costs measured, const HardwareSpec& links,
                               std::int32_t most_replicas, std::int32_t stages,
                               const ContextParallel& context);

/// The part of the last stage's work that counts. Without a graph the stage runs forward only for
/// the keys and values that other slices need (AutogradCosts), so it runs none of whole sequences.
enum class LastStage : std::uint8_t { kBothPasses, kBackwardAlone };

/// Divides the layers so that the most loaded rank of the pipeline (embedding and head included) is
/// as light as possible for these lengths, and then its stages; a vocabulary that is spread loads
/// all ranks alike; where layers differ, the most loaded stage. Counts forward and backward
/// together, without per-pack terms. Of equally loaded stages the later one gets the layer: earlier
/// stages hold more activations. Throws InvalidInput unless 1 ≤ ranks · stages_per_rank ≤ layers.
/// Cost: O(layers · stages) after one pass over the lengths; O(layers² · stages) if layers differ.
[[nodiscard]] StageLayout balanced_layout(const Costs& cost, const SequenceLengths& lengths,
                                          std::int32_t ranks, std::int32_t stages_per_rank = 1,
                                          bool spread_vocabulary = false,
                                          LastStage last = LastStage::kBothPasses,
                                          PlacementStyle style = PlacementStyle::kLoop);

/// `cost` without the times that every MicroPack takes (launches, reading weights) and without
/// those that every slice takes. Times that grow with tokens, pairs and prefixes stay.
[[nodiscard]] Costs without_overheads(const Costs& cost);

/// Parameters of a shape that all tensor-parallel ranks of a stage hold together.
[[nodiscard]] std::int64_t stage_parameters(const Decoder& shape, const StageLayout& layout,
                                            StageId stage);

/// Cost file: JSON with "format": "slimpack-cost" and "version": 5 with "trained", else 4 with
/// "autograd", else 2. Reading checks every field and throws InvalidInput naming `origin`. Files of
/// versions 1 and 3 lack figures and are refused. A file may omit "weight_gradient" (backward is
/// not split), "elementwise" (keeping everything saves no time), "host_per_byte" and
/// "host_optimizer" (nothing is offloaded), "gpu" (ranks run on a CPU), "trained" (all parameters
/// are), "per_missing_row" (0), "held_out_error" and "measured_on".
[[nodiscard]] std::string cost_to_json(const Costs& cost);
[[nodiscard]] Costs cost_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
