// Memory model: activation bytes of every action and store, by the runtime's own rules
// (docs/row-store.md explains each term).
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

/// Bytes that one token keeps for backward in one layer: x, q (before rope and with k when q/k are
/// normalised), attention output, log-sum-exp, the residual after attention, gate and up.
[[nodiscard]] Bytes row_bytes(const ModelShape& shape, Dtype dtype);
/// K and V of one token in one layer, and their gradients' accumulators.
[[nodiscard]] Bytes kv_bytes(const ModelShape& shape, Dtype dtype);
[[nodiscard]] Bytes dkv_bytes(const ModelShape& shape, Dtype dtype);

/// Rows of logits that the head computes at once.
[[nodiscard]] Tokens head_block(const ModelShape& shape);

/// Cost: O(stages · slices).
[[nodiscard]] TaskBytes task_bytes(const ModelShape& shape, Dtype dtype, const StageLayout& layout,
                                   const PackPlan& packs, const SequenceLengths& lengths);

}  // namespace slimpack
