// What every producer of plans keeps to, on random steps: a new one is added in producers().
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"
#include "tests/baselines/cases.h"

namespace slimpack {
namespace {

struct ScheduledPlan {
  StepPlan plan;
  std::vector<Schedule> schedules;  ///< by replica
};

struct Producer {
  std::string name;
  std::function<ScheduledPlan(const SequenceLengths&, const CostModel&, const StageLayout&,
                              std::int32_t replicas, Tokens context)>
      plan;

  friend void PrintTo(const Producer& producer, std::ostream* out) { *out << producer.name; }
};

Schedule schedule_of(const BaselinePlan& baseline, const CostModel& cost, std::size_t replica) {
  const PackPlan& packs = baseline.plan.replicas[replica].packs;
  const StageLayout& layout = baseline.plan.layout;
  switch (baseline.discipline) {
    case Discipline::kOneFOneB:
      return baseline.columns.empty()
                 ? one_f_one_b(packs, layout.stages())
                 : columned_one_f_one_b(baseline.columns[replica], layout.stages());
    case Discipline::kSlicedOneFOneB:
      return sliced_one_f_one_b(packs, layout.stages(), baseline.ahead_per_stage);
    case Discipline::kListSchedule:
      break;
  }
  return *list_schedule(packs, task_times(cost, layout, packs),
                        task_bytes(cost, layout, packs, baseline.plan.lengths));
}

std::vector<Producer> producers() {
  std::vector<Producer> all;
  for (const Baseline& baseline : baselines())
    all.push_back({std::string(baseline.name),
                   [&baseline](const SequenceLengths& lengths, const CostModel& cost,
                               const StageLayout& layout, std::int32_t replicas, Tokens context) {
                     const BaselinePlan made =
                         baseline_plan(baseline, {lengths, cost, layout, replicas, context});
                     ScheduledPlan out{made.plan, {}};
                     for (std::size_t r = 0; r < made.plan.replicas.size(); ++r)
                       out.schedules.push_back(schedule_of(made, cost, r));
                     return out;
                   }});
  return all;
}

/// Nanoseconds that tokens and pairs take over all stages, without any overhead.
double work_of(const SequenceLengths& lengths, const CostModel& cost, const StageLayout& layout) {
  double work = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (const bool backward : {false, true}) {
      SliceCost terms = slice_cost(cost, layout, StageId(s), backward);
      terms.per_slice = 0;
      for (const Tokens length : lengths) work += terms(Slice{SequenceId(), Tokens(0), length});
    }
  return work;
}

void conform(const Producer& producer, const SequenceLengths& lengths, std::int32_t stages,
             std::int32_t replicas, Tokens context) {
  const CostModel cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(stages);
  const ScheduledPlan made = producer.plan(lengths, cost, layout, replicas, context);
  RC_ASSERT(check_plan(made.plan) == std::vector<std::string>{});
  RC_ASSERT(made.plan.lengths == lengths && made.plan.layout == layout);
  RC_ASSERT(made.plan.replicas.size() == static_cast<std::size_t>(replicas));
  RC_ASSERT(made.schedules.size() == made.plan.replicas.size());

  std::vector<TaskTimes> times;
  std::vector<TaskBytes> bytes;
  double actions = 0;
  for (std::size_t r = 0; r < made.schedules.size(); ++r) {
    const PackPlan& packs = made.plan.replicas[r].packs;
    RC_ASSERT(check_schedule(packs, made.schedules[r]) == std::vector<std::string>{});
    times.push_back(task_times(cost, layout, packs));
    bytes.push_back(task_bytes(cost, layout, packs, lengths));
    actions += static_cast<double>(packs.forward.size() + packs.backward.size()) * stages;
  }
  RC_ASSERT(check_step_schedules(made.plan, made.schedules) == std::vector<std::string>{});
  std::vector<ReplicaTasks> tasks;
  for (std::size_t r = 0; r < times.size(); ++r)
    tasks.push_back({made.plan.replicas[r].packs, made.schedules[r], times[r], bytes[r]});
  const SimulationResult result = simulate(tasks, {.timeline = false});
  const Nanos busy = std::accumulate(result.busy.begin(), result.busy.end(), Nanos(0));
  // Every action's time is rounded by half a nanosecond at most.
  RC_ASSERT(static_cast<double>(busy.count()) + actions / 2 >= work_of(lengths, cost, layout));
}

/// Lengths of several kinds, with a context that holds the longest and sometimes just so.
std::pair<SequenceLengths, Tokens> random_step() {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const auto most = static_cast<std::int64_t>(rng.below(2) == 0 ? 1 + rng.below(200) : 65536);
  const auto length = [&](std::int64_t limit) {
    return Tokens(1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(limit))));
  };
  SequenceLengths lengths(rng.below(60));
  const Tokens same = length(most);
  switch (rng.below(3)) {
    case 0:  // equal
      for (Tokens& n : lengths) n = same;
      break;
    case 1:  // any
      for (Tokens& n : lengths) n = length(most);
      break;
    case 2:  // most of them short, down to a token, and one of the most
      for (Tokens& n : lengths) n = length(std::max<std::int64_t>(most >> rng.below(12), 1));
      lengths.emplace_back(most);
      break;
  }
  return {lengths, Tokens(most * (1 + static_cast<std::int64_t>(rng.below(3))))};
}

class EveryProducer : public ::testing::TestWithParam<Producer> {};

TEST_P(EveryProducer, MakesCorrectPlansOfRandomStepsThatRunToTheirEnd) {
  EXPECT_TRUE(rc::check([this] {
    const auto [lengths, context] = random_step();
    const auto stages = *rc::gen::inRange<std::int32_t>(1, 5);
    const auto replicas = *rc::gen::inRange<std::int32_t>(1, 9);
    conform(GetParam(), lengths, stages, replicas, context);
  }));
}

TEST_P(EveryProducer, MakesAPlanOfNoSequencesAndOfOneToken) {
  EXPECT_TRUE(rc::check([this] {
    for (const std::int32_t replicas : {1, 3, 8}) {
      conform(GetParam(), {}, 2, replicas, Tokens(1));
      conform(GetParam(), {Tokens(1)}, 4, replicas, Tokens(1));
    }
  }));
}

TEST_P(EveryProducer, GivesTheSamePlanForTheSameStep) {
  const SequenceLengths lengths = testing::tokens({30000, 20000, 9000, 9000, 500, 400, 400, 3});
  const auto plan = [&] {
    return GetParam()
        .plan(lengths, testing::round_cost(), testing::one_layer_each(2), 4, Tokens(32768))
        .plan;
  };
  EXPECT_EQ(plan(), plan());
}

INSTANTIATE_TEST_SUITE_P(Baselines, EveryProducer, ::testing::ValuesIn(producers()),
                         [](const auto& producer) {
                           std::string name = producer.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace slimpack
