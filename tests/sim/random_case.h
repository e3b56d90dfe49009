// A random plan with costs and a correct schedule for it.
#pragma once

#include "slimpack/schedule/schedule.h"
#include "tests/support/list_schedule.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_split.h"

namespace slimpack::testing {

struct SimulationCase {
  StepPlan plan;
  TaskTimes times;
  TaskBytes bytes;
  Schedule schedule;
  int slots = 1;

  [[nodiscard]] const PackPlan& packs() const { return plan.replicas.front().packs; }
  [[nodiscard]] int stages() const { return times.stages(); }
};

/// The schedule is made for other times than those of the case, so that stages do wait to send.
inline SimulationCase random_simulation_case(Rng& rng) {
  const int stages = 1 + static_cast<int>(rng.below(5));
  SimulationCase out;
  out.plan = random_plan(rng, stages);
  out.bytes = random_bytes(rng, out.plan, stages);
  out.slots = 1 + static_cast<int>(rng.below(4));
  const TaskTimes planned = random_times(rng, out.packs(), stages);
  std::vector<Schedule> schedule{*list_schedule(out.packs(), planned, out.bytes, {{}, out.slots})};
  if (rng.below(2) == 0) split_some(rng, out.plan, schedule);
  out.schedule = std::move(schedule.front());
  out.times = random_times(rng, out.packs(), stages);
  return out;
}

}  // namespace slimpack::testing
