// Memory model: activation bytes of every action and store, by the runtime's own rules
// (docs/row-store.md explains each term).
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/counted.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/device_kind.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// Rows of logits that the head computes at once. On a CPU a block is small enough for its caches.
/// On a GPU it is as large as a product must be to run at full speed.
[[nodiscard]] Tokens head_block(std::int64_t vocab_size, DeviceKind device);
/// head_block() where fused kernels take the logits (layer_widths.h): in a quarter of the memory,
/// so that blocks have four times the rows.
[[nodiscard]] Tokens fused_head_block(std::int64_t vocab_size);

/// Bytes of rows, keys and values that a rank of the pipeline holds on its stages for `tokens`
/// tokens between their forward and their backward. Every plan holds this for a whole sequence at
/// some moment. Throws as task_bytes.
[[nodiscard]] Bytes sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   std::int32_t rank, Tokens tokens);

/// Activation bytes of one rank on each stage, as the runtime's tests measure them.
///  - Tensor parallelism: rows are those of one rank (its heads and its share of the MLP; hidden
///    states are split by tokens). Gathered tensors count whole.
///  - A merged MicroPack counts the replica's share of rows, keys and values and, while it runs,
///    the visiting tensors of one other replica at a time, those of the next one, and what the last
///    one's gave. Where slices have zones of their own, `replica` says whose share that is; what
///    several zones hold while they take turns counts together, which is more than they hold at any
///    one time.
///  - Layers keep what cost.recompute lets them. Recomputed tensors count in the layer that runs.
///  - The fields of split backwards are filled only if cost.weight_gradient is known.
///  - What travels counts only where add_in_flight adds it.
/// `lengths` are indexed by the packs' SequenceIds. Throws InvalidInput for more bytes than 64 bits
/// count. Cost: O(stages · (slices + packs · changes of recomputation between its layers)).
[[nodiscard]] TaskBytes task_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   const PackPlan& packs, const SequenceLengths& lengths,
                                   Counted counted = Counted::kAll,
                                   ReplicaId replica = ReplicaId(0));

/// Pinned host memory of one rank: offloaded rows, held as long as rows on a device are. All other
/// fields are 0; those of split backwards are filled as by task_bytes. Throws and costs as that.
[[nodiscard]] TaskBytes host_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                   const PackPlan& packs, const SequenceLengths& lengths,
                                   ReplicaId replica = ReplicaId(0));

/// The bytes that a rank holds in every step, all the time. What replicas share out (Costs::zero)
/// counts as the rank's share and the largest two buckets whole.
struct ModelState {
  Bytes weights;
  Bytes gradients;  ///< in the accumulate type
  Bytes optimizer;  ///< its share of the two moments, and of the fp32 master copy in bf16

  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer; }
  bool operator==(const ModelState&) const = default;
};
/// The state of a rank of the pipeline with all its stages. `replicas` replicas share out the
/// optimizer's part, with ZeRO-2 gradients, too, and with ZeRO-3 also weights.
[[nodiscard]] ModelState model_state(const Costs& cost, const StageLayout& layout,
                                     std::int32_t rank, std::int32_t replicas);
/// The total of model_state.
[[nodiscard]] Bytes model_state_bytes(const Costs& cost, const StageLayout& layout,
                                      std::int32_t rank, std::int32_t replicas);

}  // namespace slimpack
