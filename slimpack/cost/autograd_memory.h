// Memory of a run under autograd (AutogradCosts says its rules). The memory model calls it.
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// As task_bytes. Rows are a pack's inputs or its graph. Throws and costs likewise.
/// REQUIRES: cost.autograd.
[[nodiscard]] TaskBytes autograd_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                       const PackPlan& packs, const SequenceLengths& lengths);

/// As sequence_bytes. REQUIRES: cost.autograd.
[[nodiscard]] Bytes autograd_sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                                            StageId stage, Tokens tokens);

}  // namespace slimpack
