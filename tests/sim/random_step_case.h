// Random steps with times, bytes and orders.
#pragma once

#include <vector>

#include "slimpack/sim/simulate.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"

namespace slimpack::testing {

struct StepCase {
  StepPlan plan;
  std::vector<TaskTimes> times;
  std::vector<TaskBytes> bytes;
  std::vector<Schedule> schedules;
  int slots = 1;

  [[nodiscard]] std::size_t stages() const {
    return static_cast<std::size_t>(plan.layout.stages());
  }
  /// The ranks of a replica's pipeline.
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(plan.layout.ranks()); }
  [[nodiscard]] std::vector<ReplicaPacks> tasks() const {
    std::vector<ReplicaPacks> out;
    for (std::size_t r = 0; r < plan.replicas.size(); ++r)
      out.push_back({plan.replicas[r].packs, times[r], bytes[r]});
    return out;
  }
  /// No order of these packs is faster.
  [[nodiscard]] Nanos lower_bound() const {
    Nanos bound;
    for (const ReplicaPacks& replica : tasks())
      bound = std::max(bound,
                       makespan_lower_bound(replica.packs, replica.times, plan.layout.placement));
    return bound;
  }
  [[nodiscard]] SimulationResult simulated(bool timeline) const {
    const auto replicas = tasks();
    return simulate(replicas, schedules, {slots, timeline});
  }
};

/// The orders are drawn without a look at the times, so that ranks wait to send and for company.
inline StepCase random_step_case(Rng& rng, std::int32_t ranks, std::int32_t stages_per_rank) {
  StepCase out;
  out.slots = 1 + static_cast<int>(rng.below(3));
  out.plan = random_step(rng, ranks * stages_per_rank, MergedAt::kAnywhere);
  out.plan.layout.placement = rng.below(2) == 0 ? StagePlacement::looped(ranks, stages_per_rank)
                                                : vee_placement(ranks, stages_per_rank);
  out.times = random_step_times(rng, out.plan);
  out.bytes = random_step_bytes(rng, out.plan);
  out.schedules = RandomOrders(rng, out.plan, out.slots).draw();
  if (rng.below(2) == 0) split_some(rng, out.plan, out.schedules);
  return out;
}

/// One to four ranks with a stage each.
inline StepCase random_step_case(Rng& rng) {
  return random_step_case(rng, 1 + static_cast<std::int32_t>(rng.below(4)), 1);
}

/// In one case of three two to four ranks have two or three stages each.
inline StepCase random_step_case(std::uint64_t seed) {
  Rng rng(seed);
  if (seed % 3 > 0) return random_step_case(rng);
  const auto ranks = 2 + static_cast<std::int32_t>(rng.below(3));
  return random_step_case(rng, ranks, 2 + static_cast<std::int32_t>(rng.below(2)));
}

}  // namespace slimpack::testing
