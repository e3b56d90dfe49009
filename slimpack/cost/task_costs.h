// The time and bytes of every action of one replica on every stage. Schedule and simulator know
// nothing else of models, machines and slices.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The limit of every timeline in nanoseconds, 104 days. Times of a step below it can be added up
/// in 64 bits.
inline constexpr double kLongestTime = 0x1p53;

/// Compute time and transfer time of each MicroPack, indexed [stage][pack].
struct TaskTimes {
  std::vector<std::vector<Nanos>> forward;
  std::vector<std::vector<Nanos>> backward;
  /// By backward pack: the two parts of a split backward. The weight gradients can wait. Empty =
  /// backward cannot be split.
  std::vector<std::vector<Nanos>> input_gradient;
  std::vector<std::vector<Nanos>> weight_gradient;
  /// [E, H, G][pack], which all ranks of the pipeline run together. Empty = the vocabulary is not
  /// spread.
  std::array<std::vector<Nanos>, kJointPasses.size()> joint;
  std::vector<Nanos> forward_transfer;   ///< by forward pack: to the next stage
  std::vector<Nanos> backward_transfer;  ///< by backward pack: to the previous stage
  /// By rank of the pipeline: what is left of the reduction of gradients between replicas once this
  /// one has run the rank's stages. Buckets are reduced one after the other, each once all replicas
  /// have it, so the rank is reduced when this time has passed on every replica.
  std::vector<Nanos> reduce;
  /// `reduce` where the rank's last action is weight gradients alone. Weight gradients hide less
  /// than a backward, but send nothing. Empty = backward cannot be split.
  std::vector<Nanos> reduce_after_weights;
  /// By rank of the pipeline: gradient norm, optimizer and the exchange of updated parameters,
  /// after all ranks.
  std::vector<Nanos> step_end;

  [[nodiscard]] int stages() const { return static_cast<int>(forward.size()); }
  [[nodiscard]] std::size_t ranks() const { return step_end.size(); }
  /// `reduce` where the rank's last action is of this pass.
  [[nodiscard]] Nanos reduce_after(Pass last, std::size_t rank) const {
    const bool weights = last == Pass::kWeightGradient && !reduce_after_weights.empty();
    return weights ? reduce_after_weights[rank] : reduce[rank];
  }
  /// The least of reduce_after, whatever pass comes last.
  [[nodiscard]] Nanos least_reduce(std::size_t rank) const {
    return std::min(reduce_after(Pass::kBackward, rank), reduce_after(Pass::kWeightGradient, rank));
  }
};

/// The bytes of a GPU's actions that count. Each value counts all values before it, too, so the
/// differences say what each value adds to a peak.
enum class Counted : std::uint8_t {
  kTensors,   ///< the stores, and the tensors of layers
  kKernels,   ///< what the attention kernel takes for itself (flash_forward_call)
  kMessages,  ///< messages between stages (StageTable::add_in_flight)
  kAll,       ///< gradients that replicas sum (StageTable::add_in_flight)
};

/// Messages of one direction that a process holds until their receivers have them. Receives are
/// posted when messages leave as planned, so they wait only where a receiver is late: more would
/// cost memory on all ranks, one alone would stall the sender at once. Any number from 1 on is safe
/// (docs/schedule.md, "Lowering").
inline constexpr int kHeldSends = 2;

/// Activation bytes of one rank of each stage, by the units in which the runtime's stores allocate
/// and free (docs/row-store.md). Indices: [stage][pack] or [stage][sequence].
struct TaskBytes {
  /// Held from a forward action's start until the last of the pack's rows has run backward.
  std::vector<std::vector<Bytes>> rows;
  /// Held from the first forward slice of a sequence until its last backward action ends (K and V).
  std::vector<std::vector<Bytes>> kv;
  /// Held from the first backward slice of a sequence to its last, if these differ (dK and dV).
  std::vector<std::vector<Bytes>> dkv;
  /// The peak of a forward action beyond everything above as it stands once the action has started.
  std::vector<std::vector<Bytes>> forward_transient;
  /// The peak of a backward action beyond everything above as it stood before the action. Backward
  /// opens dK and dV and frees rows one layer at a time; the peak includes that.
  std::vector<std::vector<Bytes>> backward_transient;
  /// The operands of put-off weight gradients, held from the input gradients' end until the weight
  /// gradients end. Empty = backward cannot be split.
  std::vector<std::vector<Bytes>> weight_operands;
  /// The peak of input gradients, counted as in backward_transient. Their layers leave operands one
  /// by one; the peak includes these operands.
  std::vector<std::vector<Bytes>> input_transient;
  /// The peak of weight gradients beyond everything above.
  std::vector<std::vector<Bytes>> weight_transient;
  /// Activations or their gradients, held from the sender's put until the action starts. Where the
  /// vocabulary is spread, also on the first stage's rank from E to F and from B to G, and on the
  /// last's from F to H and from H to B; `rows` has the head's inputs only where it is not.
  std::vector<Bytes> forward_input;   ///< by forward pack
  std::vector<Bytes> backward_input;  ///< by backward pack
  /// [E, H, G][pack]: the peak beyond everything above, on every rank. Empty = the vocabulary is
  /// not spread.
  std::array<std::vector<Bytes>, kJointPasses.size()> joint_transient;

  [[nodiscard]] bool spread_vocabulary() const {
    return !joint_transient[joint_index(Pass::kHead)].empty();
  }
};

/// One replica's packs with what they cost. Sequence ids may be the replica's own.
struct ReplicaPacks {
  PackPlan packs;
  TaskTimes times;
  TaskBytes bytes;  ///< empty where only times are asked for
};

}  // namespace slimpack
