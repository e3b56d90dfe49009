// Memory model: activation bytes of every action and store, by the runtime's own rules
// (docs/row-store.md explains each term).
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

/// Rows of logits that the head computes at once.
[[nodiscard]] Tokens head_block(const ModelShape& shape);

/// Rows, keys and values that a rank of the stage holds of `tokens` tokens between their forward
/// and their backward: of a sequence, what every plan has to hold at some moment. Throws as
/// task_bytes.
[[nodiscard]] Bytes sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   StageId stage, Tokens tokens);

/// Of one rank, as the runtime's tests measure it. With tensor parallelism rows are those of one
/// rank (its heads and its share of the MLP; hidden states are split by tokens) and what is
/// gathered counts whole; a merged MicroPack counts its share of rows, keys and values, and what
/// visits of one other replica at a time while it runs. Layers keep what cost.recompute lets them;
/// the rest counts in the layer that runs. What put-off weight gradients hold is filled only where
/// cost.weight_gradient is known. `lengths` are by the packs' SequenceIds. Throws InvalidInput for
/// more bytes than 64 bits count.
///
/// Cost: O(stages · (slices + packs · changes of policy between its layers)).
[[nodiscard]] TaskBytes task_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   const PackPlan& packs, const SequenceLengths& lengths);

/// Pinned host memory of one rank: rows that are offloaded, held as long as rows on a device are.
/// All else is 0, operands of weight gradients are missing. Throws and costs as task_bytes.
[[nodiscard]] TaskBytes host_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   const PackPlan& packs, const SequenceLengths& lengths);

/// What a rank holds all the time, step after step.
struct ModelState {
  Bytes weights;
  Bytes gradients;  ///< in the accumulate type
  Bytes optimizer;  ///< its share of the two moments, and of the fp32 master copy in bf16

  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer; }
  bool operator==(const ModelState&) const = default;
};
/// `replicas` share the optimizer's part.
[[nodiscard]] ModelState model_state(const Costs& cost, const StageLayout& layout, StageId stage,
                                     std::int32_t replicas);
/// Its total.
[[nodiscard]] Bytes model_state_bytes(const Costs& cost, const StageLayout& layout, StageId stage,
                                      std::int32_t replicas);

}  // namespace slimpack
