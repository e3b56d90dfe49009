// Schedules as text, checked and run with packs of whole sequences.
#include "slimpack/schedule/schedule.h"

#include <algorithm>

#include "slimpack/sim/simulate.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/simulate_packs.h"

using namespace slimpack;

namespace {

using testing::simulate;

/// As many packs as a schedule's first stage runs forward, each of one sequence of one token.
PackPlan packs_of(const Schedule& schedule) {
  constexpr std::size_t kMost = 64;
  PackPlan packs;
  for (const Action& action : schedule.stages.front())
    if (action.pass == Pass::kForward && packs.forward.size() < kMost)
      packs.forward.push_back({{{SequenceId(packs.forward.size()), Tokens(0), Tokens(1)}}});
  packs.backward = packs.forward;
  return packs;
}

/// Every action takes 2 ns, split backward 1 ns for each part, and every transfer 1 ns.
TaskTimes times_of(std::size_t stages, std::size_t packs) {
  const std::vector<std::vector<Nanos>> two(stages, std::vector<Nanos>(packs, Nanos(2)));
  const std::vector<std::vector<Nanos>> one(stages, std::vector<Nanos>(packs, Nanos(1)));
  return {.forward = two,
          .backward = two,
          .input_gradient = one,
          .weight_gradient = one,
          .forward_transfer = std::vector<Nanos>(packs, Nanos(1)),
          .backward_transfer = std::vector<Nanos>(packs, Nanos(1)),
          .reduce = std::vector<Nanos>(stages),
          .step_end = std::vector<Nanos>(stages)};
}

TaskBytes bytes_of(std::size_t stages, std::size_t packs) {
  const std::vector<std::vector<Bytes>> one(stages, std::vector<Bytes>(packs, Bytes(1)));
  return {.rows = one,
          .kv = one,
          .dkv = one,
          .forward_transient = one,
          .backward_transient = one,
          .weight_operands = one,
          .input_transient = one,
          .weight_transient = one,
          .forward_input = one.front(),
          .backward_input = one.front()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedule =
      fuzz::accepted([&] { return schedule_from_text(fuzz::text_of(data, size), "schedule"); });
  if (!schedule) return 0;
  fuzz::require(schedule_from_text(schedule_to_text(*schedule), "written") == *schedule,
                "a schedule reads as it is written");
  const PackPlan packs = packs_of(*schedule);
  const std::size_t stages = schedule->stages.size(), count = packs.forward.size();
  if (!check_schedule(packs, *schedule).empty() || count == 0) return 0;
  const TaskBytes bytes = bytes_of(stages, count);
  const SimulationResult result = simulate(packs, *schedule, times_of(stages, count), bytes);
  fuzz::require(result.makespan >= result.lower_bound, "no schedule beats the lower bound");
  fuzz::require(result.peak_activation.front() <= schedule_memory(packs, *schedule, bytes).front(),
                "no timing holds more than the schedule's memory");
  return 0;
}
