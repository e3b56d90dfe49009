// Steps made ready in one process and in several.
#include "slimpack/training/step_maker.h"

#include <gtest/gtest.h>

#include <functional>

#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/training/process_message.h"
#include "tests/support/expect_error.h"
#include "tests/support/thread_processes.h"
#include "tests/training/small_run.h"

namespace slimpack {
namespace {

using testing::in_processes;
using testing::SmallRun;

DocumentStream stream_of(const RunConfig& config) {
  return {DocumentReader({config.data.prefix}, trained_model(config), config.model.config,
                         config.train.loss),
          config.data, SamplerCursor{.seed = config.data.seed}};
}

StepPlanner planner_of(const RunConfig& config, std::function<void()> progress = nullptr) {
  Costs cost = *configured_cost(config, trained_model(config));
  const SequenceLengths lengths = lengths_of(stream_of(config).peek().sequences);
  StageLayout layout = balanced_layout(cost, lengths, config.parallel.pp);
  return {config, std::move(cost), std::move(layout), {}, std::move(progress)};
}

std::string text_of(const ReadyStep& step) {
  return plan_message(step.planned.plan, step.planned.lowered) + " at " +
         std::to_string(step.batch.cursor.sources.front().position);
}

/// The outcome of `steps` steps of a run: plans and places in the data, or why there are none.
std::string made(const RunConfig& config, const JobAgreement& agreement, int steps) {
  StepMaker maker(stream_of(config), planner_of(config), config.plan.planner, agreement);
  std::string text;
  try {
    for (int step = 1; step <= steps; ++step) {
      maker.start();
      const auto ready = maker.take("step " + std::to_string(step), [] { return false; });
      text += text_of(*ready) + "\n";
    }
    return text + text_of(maker.again(stream_of(config).next(), PlannerKind::kPacked));
  } catch (const InvalidInput& e) {
    return e.what();
  }
}

std::vector<std::string> made_in_processes(const std::vector<RunConfig>& configs) {
  return in_processes(static_cast<std::int32_t>(configs.size()),
                      [&](JobProcess& process, std::int32_t rank) {
                        const JobAgreement agreement(&process, [] { return false; });
                        return made(configs[static_cast<std::size_t>(rank)], agreement, 3);
                      });
}

TEST(StepMaker, MakesTheSameStepsInAllProcessesAsInOne) {
  const SmallRun small;
  const RunConfig config = small.config({"parallel.pp=2", "data.step_tokens=30"});
  const std::string alone = made(config, JobAgreement(nullptr, [] { return false; }), 3);
  for (const std::string& text : made_in_processes({config, config, config}))
    EXPECT_EQ(text, alone);
}

TEST(StepMaker, RunsThePlansOfTheFirstProcessWhateverTheOthersWouldPlan) {
  const SmallRun small;
  const RunConfig first = small.config({"parallel.pp=2"});
  // By itself the other process would cut in other places, for longer, with another planner.
  const RunConfig other =
      small.config({"parallel.pp=2", "plan.granularity=16", "plan.time_budget=1",
                    "plan.planner=packed", "plan.backward=whole"});
  const JobAgreement alone(nullptr, [] { return false; });
  ASSERT_NE(made(other, alone, 3), made(first, alone, 3));
  const std::vector<std::string> texts = made_in_processes({first, other});
  EXPECT_EQ(texts[0], made(first, alone, 3));
  EXPECT_EQ(texts[1], texts[0]);
}

TEST(StepMaker, EndsThePlanningOfAStepWithTheNextCandidateOnceItIsInterrupted) {
  const SmallRun small;
  const RunConfig config = small.config({"parallel.pp=2"});
  const JobAgreement alone(nullptr, [] { return false; });
  int candidates = 0;
  StepMaker whole(stream_of(config), planner_of(config, [&] { ++candidates; }), config.plan.planner,
                  alone);
  whole.start();
  (void)whole.take("step 1", [] { return false; });
  ASSERT_GT(candidates, 3);
  candidates = 0;
  const auto interrupt = [&] {
    if (++candidates == 3) throw Interrupted("stopped");
  };
  StepMaker stopped(stream_of(config), planner_of(config, interrupt), config.plan.planner, alone);
  stopped.start();
  EXPECT_THROW((void)stopped.take("step 1", [] { return false; }), Interrupted);
  EXPECT_EQ(candidates, 3);
}

TEST(StepMaker, EndsAllProcessesWhereTheFirstFindsNoPlan) {
  const SmallRun small;
  const RunConfig config = small.config();
  const std::vector<std::string> texts =
      made_in_processes({small.config({"plan.memory_cap=1"}), config});
  EXPECT_NE(texts[0].find("plan.memory_cap"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
}

TEST(StepMaker, EndsAllProcessesWhereOneDrawsOtherDocuments) {
  const SmallRun small;
  const std::vector<std::string> texts = made_in_processes(
      {small.config({"data.step_tokens=20"}), small.config({"data.step_tokens=60"})});
  EXPECT_EQ(texts[0].find("step 1: ranks 0 and 1 have drawn different documents"), 0) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
}

TEST(StepMaker, TellsThatAPlanOfAnotherRunWasHandedOver) {
  const SmallRun small;
  const std::vector<RunConfig> configs{small.config({"parallel.pp=2"}),
                                       small.config({"parallel.dp=2"})};
  const std::vector<std::string> ends =
      in_processes(2, [&](JobProcess& process, std::int32_t rank) -> std::string {
        const RunConfig& config = configs[static_cast<std::size_t>(rank)];
        const JobAgreement agreement(&process, [] { return false; });
        StepMaker maker(stream_of(config), planner_of(config), config.plan.planner, agreement);
        maker.start();
        try {
          return maker.take("step 1", [] { return false; }) ? "goes on" : "out of time";
        } catch (const HandoverFailed& e) {
          return e.what();
        }
      });
  EXPECT_EQ(ends[0], "goes on");
  EXPECT_EQ(ends[1].find("step 1: the plan of rank 0: it is one of other stages"), 0) << ends[1];
}

TEST(StepPlanner, RefusesAPlanOfAnotherRun) {
  const SmallRun small;
  const SequenceLengths lengths{Tokens(40), Tokens(7)};
  const StepPlanner planner = planner_of(small.config({"parallel.pp=2"}));
  const auto refused = [&](const StepPlanner& by, const SequenceLengths& of, const char* why) {
    const StepPlan plan = by.plan(of, 1, PlannerKind::kSlimpack).plan;
    expect_invalid_input([&] { planner.require_of_this_run(plan, lengths, "the plan of rank 0"); },
                         {"the plan of rank 0", why});
  };
  refused(planner, {Tokens(40), Tokens(8)}, "other sequences");
  refused(planner_of(small.config()), lengths, "other stages");
  refused(planner_of(small.config({"parallel.pp=2", "parallel.dp=2"})), lengths,
          "another number of replicas");
  EXPECT_NO_THROW(planner.require_of_this_run(planner.plan(lengths, 1, PlannerKind::kSlimpack).plan,
                                              lengths, "the plan of rank 0"));
}

}  // namespace
}  // namespace slimpack
