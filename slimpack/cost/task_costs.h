// What every action of one replica costs on every stage: the only thing that schedule and
// simulator need to know of models, machines and slices.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Compute time and transfer time of each MicroPack, indexed [stage][pack].
struct TaskTimes {
  std::vector<std::vector<Nanos>> forward;
  std::vector<std::vector<Nanos>> backward;
  /// By backward pack: backward in two parts, the second of which can wait. Empty = backward cannot
  /// be split.
  std::vector<std::vector<Nanos>> input_gradient;
  std::vector<std::vector<Nanos>> weight_gradient;
  std::vector<Nanos> forward_transfer;   ///< by forward pack: stage to next stage
  std::vector<Nanos> backward_transfer;  ///< by backward pack: stage to previous stage
  /// By stage: reduction of gradients between replicas, once all of them have run the stage.
  std::vector<Nanos> reduce;
  /// By stage: gradient norm, optimizer and the exchange of what it updated, when every stage is
  /// done.
  std::vector<Nanos> step_end;

  [[nodiscard]] int stages() const { return static_cast<int>(forward.size()); }
};

/// Activation bytes of each stage, in the units in which the runtime's stores allocate and free
/// (docs/row-store.md). Indices: [stage][pack] or [stage][sequence].
struct TaskBytes {
  /// Held from a forward action's start until the last of the pack's rows has run backward.
  std::vector<std::vector<Bytes>> rows;
  /// Held from the first forward slice of a sequence until its last backward action ends (K and V).
  std::vector<std::vector<Bytes>> kv;
  /// Held from the first backward slice of a sequence to its last, when they differ (dK and dV).
  std::vector<std::vector<Bytes>> dkv;
  /// Highest while the action runs, beyond everything above as it is once the action has started …
  std::vector<std::vector<Bytes>> forward_transient;
  /// … and as it was before: backward opens dK and dV and frees rows one layer at a time, so what
  /// it opens and closes on the way is in here.
  std::vector<std::vector<Bytes>> backward_transient;
  /// Of a backward action that is split: held from its input gradients until its weight gradients
  /// end (the operands of their matrix products). Empty = backward cannot be split.
  std::vector<std::vector<Bytes>> weight_operands;
  /// As backward_transient, while input gradients run: their layers leave operands one by one, so
  /// these are in here.
  std::vector<std::vector<Bytes>> input_transient;
  /// Alive only while weight gradients run.
  std::vector<std::vector<Bytes>> weight_transient;
  /// Held from the sender's put until the action starts: activations and their gradients.
  std::vector<Bytes> forward_input;   ///< by forward pack
  std::vector<Bytes> backward_input;  ///< by backward pack
};

/// One replica's packs with what they cost. Sequence ids may be the replica's own.
struct ReplicaPacks {
  PackPlan packs;
  TaskTimes times;
  TaskBytes bytes;  ///< empty where only times are asked for
};

}  // namespace slimpack
