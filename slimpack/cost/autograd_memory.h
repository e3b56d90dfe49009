// Memory of a run under autograd (AutogradCosts says its rules). The memory model calls it.
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The bytes that task_bytes gives, for a run under autograd. Rows are a pack's inputs or its
/// graph. Exceptions and cost are those of task_bytes. REQUIRES: cost.autograd.
[[nodiscard]] TaskBytes autograd_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                       const PackPlan& packs, const SequenceLengths& lengths);

/// The bytes that sequence_bytes gives, for one stage of a run under autograd. REQUIRES:
/// cost.autograd.
[[nodiscard]] Bytes autograd_sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                            StageId stage, Tokens tokens);

}  // namespace slimpack
