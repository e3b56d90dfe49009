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
  [[nodiscard]] std::vector<ReplicaPacks> tasks() const {
    std::vector<ReplicaPacks> out;
    for (std::size_t r = 0; r < plan.replicas.size(); ++r)
      out.push_back({plan.replicas[r].packs, times[r], bytes[r]});
    return out;
  }
  [[nodiscard]] SimulationResult simulated(bool timeline) const {
    const auto replicas = tasks();
    return simulate(replicas, schedules, {slots, timeline});
  }
};

/// The orders are drawn without a look at the times, so that stages wait to send and for company.
inline StepCase random_step_case(Rng& rng) {
  StepCase out;
  const int stages = 1 + static_cast<int>(rng.below(4));
  out.slots = 1 + static_cast<int>(rng.below(3));
  out.plan = random_step(rng, stages, MergedAt::kAnywhere);
  out.times = random_step_times(rng, out.plan);
  out.bytes = random_step_bytes(rng, out.plan);
  out.schedules = RandomOrders(rng, out.plan, stages, out.slots).draw();
  if (rng.below(2) == 0) split_some(rng, out.plan, out.schedules);
  return out;
}

}  // namespace slimpack::testing
