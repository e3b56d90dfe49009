// What keeps a step of ours from being much faster than the best other one.
#pragma once

#include <string>

#include "bench/planner/jobs.h"
#include "bench/planner/rated_step.h"

namespace slimpack::bench {

/// Tables say what binds where our step is less than so many times as fast as the other.
inline constexpr double kClearlyFaster = 1.1;

/// In few words:
///  - "work" or "longest document's chain": no plan is clearly faster than `other`, because of that
///    term of the lower bound;
///  - "memory": without a cap our step would be 3% shorter or more;
///  - else the larger of "overheads", what MicroPacks and slices cost by themselves, and "fill and
///    drain", what ranks wait; with its share of the step.
/// Cost: a plan without a cap. REQUIRES: ours has a step.
[[nodiscard]] std::string what_binds(const StepJob& job, const RatedStep& ours, Nanos other);

}  // namespace slimpack::bench
