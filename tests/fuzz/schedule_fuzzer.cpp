// Schedules as text, with and without messages, checked and run with packs of whole sequences.
#include <algorithm>
#include <string>

#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/sim/simulate.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/simulate_packs.h"
#include "tests/support/wait_graph.h"

using namespace slimpack;

namespace {

using testing::simulate;

/// A pack for each forward of a schedule's first stage, each of one sequence of one token.
PackPlan packs_of(const Schedule& schedule) {
  constexpr std::size_t kMost = 64;
  PackPlan packs;
  for (const Action& action : schedule.ranks.front())
    if (action.stage == StageId(0) && action.pass == Pass::kForward && packs.forward.size() < kMost)
      packs.forward.push_back({{{SequenceId(packs.forward.size()), Tokens(0), Tokens(1)}}});
  packs.backward = packs.forward;
  return packs;
}

/// Every action takes 2 ns, split backward 1 ns for each part, and every transfer 1 ns.
TaskTimes times_of(std::size_t stages, std::size_t ranks, std::size_t packs) {
  const std::vector<std::vector<Nanos>> two(stages, std::vector<Nanos>(packs, Nanos(2)));
  const std::vector<std::vector<Nanos>> one(stages, std::vector<Nanos>(packs, Nanos(1)));
  return {.forward = two,
          .backward = two,
          .input_gradient = one,
          .weight_gradient = one,
          .forward_transfer = std::vector<Nanos>(packs, Nanos(1)),
          .backward_transfer = std::vector<Nanos>(packs, Nanos(1)),
          .reduce = std::vector<Nanos>(ranks),
          .step_end = std::vector<Nanos>(ranks)};
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

void try_schedule(const std::string& text, const StagePlacement& placement) {
  const auto schedule =
      fuzz::accepted([&] { return schedule_from_text(text, "schedule", placement); });
  if (!schedule) return;
  fuzz::require(schedule_from_text(schedule_to_text(*schedule), "written", placement) == *schedule,
                "a schedule reads as it is written");
  const PackPlan packs = packs_of(*schedule);
  const std::size_t stages = schedule->stages(), count = packs.forward.size();
  if (!check_schedule(packs, *schedule).empty() || count == 0) return;
  const TaskBytes bytes = bytes_of(stages, count);
  const TaskTimes times = times_of(stages, schedule->ranks.size(), count);
  const SimulationResult result = simulate(packs, *schedule, times, bytes);
  fuzz::require(result.makespan >= makespan_lower_bound(packs, times, schedule->placement),
                "no schedule beats the lower bound");
  fuzz::require(result.peak_activation.front() <= schedule_memory(packs, *schedule, bytes).front(),
                "no timing holds more than the schedule's memory");
}

void try_lowered(const std::string& text, const StagePlacement& placement) {
  const auto lowered =
      fuzz::accepted([&] { return lowered_from_text(text, "lowered schedule", placement); });
  if (!lowered) return;
  fuzz::require(lowered_from_text(lowered_to_text(*lowered), "written", placement) == *lowered,
                "a lowered schedule reads as it is written");
  const Schedule schedule = actions_of(*lowered);
  StepPlan plan;
  const PackPlan& packs = plan.replicas.emplace_back(ReplicaPlan{{}, packs_of(schedule)}).packs;
  const std::size_t stages = schedule.stages(), count = packs.forward.size();
  const std::span all(&*lowered, 1);
  if (!check_lowered(plan, all).empty() || count == 0) return;
  const TaskTimes times = times_of(stages, schedule.ranks.size(), count);
  const testing::WaitGraph posted(plan, {&schedule, 1}, {times}, kChannelSlots, all);
  fuzz::require(!posted.deadlocks(), "a step ends wherever its receives are posted");
  const ReplicaPacks replica{packs, times, {}};
  const StepGraph graph = timed_graph({&replica, 1}, {&schedule, 1});
  for (std::size_t p = 0; p < graph.ranks(); ++p)
    for (const StepNode& node : graph.rank(0, p))
      fuzz::require(posted.start(0, node.action) >= node.start,
                    "no message is sooner than with its receive posted in time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const StagePlacement vee({0, 1, 1, 0});
  for (const StagePlacement& placement : {StagePlacement(), StagePlacement::looped(2, 2), vee}) {
    try_schedule(text, placement);
    try_lowered(text, placement);
  }
  return 0;
}
