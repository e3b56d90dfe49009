// Overheads: what MicroPacks and slices cost by themselves, apart from the tokens in them.
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// `cost` without the times that every MicroPack takes (launches, reading weights) and without
/// those that every slice takes. Times that grow with tokens, pairs and prefixes stay.
[[nodiscard]] Costs without_overheads(const Costs& cost);

/// How much longer all ranks of a replica together compute because of these overheads: the sum over
/// ranks and MicroPacks of what task_times says more with `cost` than with without_overheads(cost).
/// Throws InvalidInput as task_times. Cost: that of task_times, twice.
[[nodiscard]] Nanos overhead_time(const RecomputingCosts& cost, const StageLayout& layout,
                                  const PackPlan& packs, const Replication& replication = {});

}  // namespace slimpack
