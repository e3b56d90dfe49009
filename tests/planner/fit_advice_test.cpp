#include "slimpack/planner/fit_advice.h"
#include "slimpack/cost/abilities.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "tests/planner/small_step.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

/// small_cost() with tp and a rank's memory.
FitQuestion small_question(Bytes memory) {
  FitQuestion question;
  question.cost = [memory](const ParallelGrid& grid) {
    const Decoder shape = testing::small_cost().shape;
    Costs cost = cost_from_hardware(shape, Dtype::kFp32, HardwareSpec{}, grid.tp, grid.dp);
    cost.device.memory = memory;
    return cost;
  };
  question.most_tp = 4;
  question.lengths = {Tokens(4000), Tokens(900), Tokens(300), Tokens(2000)};
  question.context = Tokens(4000);
  return question;
}

/// Plans the job from scratch and holds every rank against the memory. `cap` as plan_step gets it.
bool fits(const FitQuestion& question, const FitJob& job) {
  const Costs cost = question.cost(job.grid);
  Choices choices = job.choices;
  choices.most_merged = allowed_merging(choices.most_merged, job.grid.dp, cost);
  const Bytes memory = Bytes(cost.device.memory.count() / 100 * 95);
  const StageLayout layout = balanced_layout(cost, question.lengths, job.grid.pp);
  Bytes states;
  for (std::int32_t s = 0; s < job.grid.pp; ++s)
    states = std::max(states, model_state_bytes(cost, layout, s, job.grid.dp));
  if (states >= memory) return false;
  const Job planned{.layout = layout,
                    .replicas = job.grid.dp,
                    .memory_cap = job.memory_cap ? *job.memory_cap : memory - states,
                    .context = question.context};
  const PlanOutcome outcome = plan_step({planned, question.lengths, choices, cost});
  if (!outcome.step) return false;
  const std::vector<Bytes> needs = rank_needs(*outcome.step, cost);
  for (std::size_t s = 0; s < needs.size(); ++s)
    if (needs[s] + model_state_bytes(cost, layout, s, job.grid.dp) > memory) return false;
  return true;
}

TEST(FitAdvice, SaysWhatAJobThatFitsNeeds) {
  FitQuestion question = small_question(Bytes(1'000'000'000));
  question.job.grid.pp = 2;
  const FitAdvice advice = fit_advice(question);
  EXPECT_TRUE(advice.wish.fits);
  EXPECT_TRUE(advice.options.empty());
  EXPECT_EQ(advice.unlimited, advice.wish.makespan);
  ASSERT_EQ(advice.wish.ranks.size(), 2U);
  for (const RankMemoryUse& stage : advice.wish.ranks) {
    EXPECT_GT(stage.activations, Bytes(0));
    EXPECT_EQ(stage.capacity, Bytes(950'000'000));
    EXPECT_EQ(stage.total() + stage.headroom(), Bytes(950'000'000));
  }
  const std::size_t worst = advice.wish.worst();
  EXPECT_LE(advice.wish.ranks[worst].headroom(), advice.wish.ranks[1 - worst].headroom());
}

RC_GTEST_PROP(FitAdvice, IsRightAboutTheJobAndAboutWhatItAdvises, (std::uint64_t seed)) {
  Rng rng(seed);
  FitQuestion question =
      small_question(Bytes(2'000'000 + static_cast<std::int64_t>(rng.below(20'000'000))));
  question.job.grid.pp = 1 + static_cast<std::int32_t>(rng.below(3));
  question.job.grid.dp = 1 << rng.below(3);
  question.job.grid.tp = 1 << rng.below(2);
  question.job.choices.most_merged = 1 << rng.below(4);
  if (rng.below(3) == 0) question.job.choices.planner = PlannerKind::kPacked;
  const FitAdvice advice = fit_advice(question);
  RC_ASSERT(advice.wish.fits == fits(question, question.job));
  RC_CLASSIFY(advice.wish.fits, "fits");
  RC_CLASSIFY(!advice.options.empty(), "has advice");
  const RankMemoryUse& worst = advice.wish.ranks[advice.wish.worst()];
  if (advice.wish.fits) {
    RC_ASSERT(worst.headroom() >= Bytes(0));
    return;
  }
  RC_ASSERT(advice.unlimited <= advice.wish.makespan ||
            question.job.choices.planner == PlannerKind::kPacked);
  std::int64_t ranks = 0;
  for (const FitOption& option : advice.options) {
    RC_ASSERT(!option.settings.empty());
    RC_ASSERT(option.settings == changed_settings(question.job, option.report.job));
    RC_ASSERT(fits(question, option.report.job));
    RC_ASSERT(option.report.ranks[option.report.worst()].headroom() >= Bytes(0));
    RC_ASSERT(option.report.job.grid.ranks() >= ranks);
    ranks = option.report.job.grid.ranks();
  }
}

/// A step of next to no activations: the states of 310,208 parameters decide, 16 bytes each, which
/// is 5 MB on one rank.
FitQuestion question_of_states(Bytes memory) {
  FitQuestion question = small_question(memory);
  question.lengths = {Tokens(20), Tokens(10)};
  return question;
}

TEST(FitAdvice, ChangesTwoThingsOnlyWhereOneIsNotEnough) {
  // A quarter of the states is 1.24 MB; an eighth of the optimizer's 2.5 MB leaves 2.8 MB. So at
  // 1.2 MB neither tp = 4 nor pp = 4 nor dp = 8 is enough, but two of them are.
  const FitQuestion question = question_of_states(Bytes(1'200'000));
  const FitAdvice advice = fit_advice(question);
  ASSERT_FALSE(advice.wish.fits);
  for (const FitCandidate& single :
       single_changes(question.job, {.layers = 6,
                                    .heads = 4,
                                    .most_tp = 4,
                                    .recompute = abilities(question.cost({})).recomputations}))
    EXPECT_FALSE(fits(question, single.job));
  ASSERT_FALSE(advice.options.empty());
  EXPECT_LE(advice.options.size(), 5U);
  for (const FitOption& option : advice.options) {
    EXPECT_EQ(option.settings.size(), 2U);
    EXPECT_TRUE(fits(question, option.report.job));
  }
}

TEST(FitAdvice, TellsHowFarItIs) {
  // With so little memory neither a single change nor a pair of them fits: both series are told
  // from 0 to their ends.
  FitQuestion question = question_of_states(Bytes(100'000));
  std::vector<std::pair<std::size_t, std::size_t>> told;
  question.progress = [&](std::size_t done, std::size_t total) { told.emplace_back(done, total); };
  ASSERT_TRUE(fit_advice(question).options.empty());
  std::size_t series = 0;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const auto [done, total] = told[i];
    EXPECT_LE(done, total);
    if (done == 0)
      ++series;
    else
      EXPECT_EQ(told[i - 1], std::pair(done - 1, total));
  }
  EXPECT_EQ(series, 2U);
  EXPECT_EQ(told.back().first, told.back().second);
}

TEST(FitAdvice, LeavesTpAloneWhereItsCostsAreMeasured) {
  FitQuestion question = question_of_states(Bytes(4'000'000));
  const FitAdvice free = fit_advice(question);
  EXPECT_TRUE(std::any_of(free.options.begin(), free.options.end(),
                          [](const FitOption& option) { return option.report.job.grid.tp > 1; }));
  question.most_tp = 1;
  const FitAdvice measured = fit_advice(question);
  ASSERT_FALSE(measured.wish.fits);
  ASSERT_FALSE(measured.options.empty());
  for (const FitOption& option : measured.options) EXPECT_EQ(option.report.job.grid.tp, 1);
}

TEST(FitAdvice, RaisesACapThatIsLowerThanTheMemory) {
  FitQuestion question = small_question(Bytes(1'000'000'000));
  question.job.grid.pp = 2;
  question.job.memory_cap = Bytes(1'000'000);
  const FitAdvice advice = fit_advice(question);
  ASSERT_FALSE(advice.wish.fits);
  ASSERT_FALSE(advice.options.empty());
  const FitJob& job = advice.options.front().report.job;
  ASSERT_TRUE(job.memory_cap.has_value());
  EXPECT_TRUE(fits(question, job));
  FitJob less = job;
  less.memory_cap = *less.memory_cap - Bytes(1);
  EXPECT_FALSE(fits(question, less));
}

TEST(FitAdvice, SaysWhichSequenceWouldFitWhereNothingHelps) {
  const FitAdvice advice = fit_advice(small_question(Bytes(100'000)));
  EXPECT_FALSE(advice.wish.fits);
  EXPECT_TRUE(advice.options.empty());
  EXPECT_EQ(advice.wish.longest, Tokens(4000));
  EXPECT_EQ(advice.wish.longest_that_fits, Tokens(0));
}

TEST(FitAdvice, RaisesTheCapWhereThePlannerDoesNotFindWhatItNamed) {
  FitQuestion question = small_question(Bytes(1'000'000'000));
  question.job.memory_cap = Bytes(1000);
  const FitReport found = fit_advice(question).wish;
  ASSERT_FALSE(found.fits);
  // This planner finds a plan only for twice the memory that it names.
  question.plan = [](const StepQuestion& asked) {
    Job half = asked.job;
    if (half.memory_cap) half.memory_cap = *half.memory_cap / 2;
    return plan_step({half, asked.lengths, asked.choices, asked.cost});
  };
  const FitReport forgetful = fit_advice(question).wish;
  EXPECT_FALSE(forgetful.fits);
  // The cap grows by eighths, from below the least cap for which the planner finds a plan.
  const Bytes least = found.ranks.front().activations;
  EXPECT_GE(forgetful.ranks.front().activations, least);
  EXPECT_LE(forgetful.ranks.front().activations, least + least / 8 + Bytes(1));
}

/// Two replicas of two stages in bf16 on GPUs.
FitQuestion question_of_gpus() {
  FitQuestion question = small_question(Bytes(1'000'000'000));
  question.job.grid.pp = question.job.grid.dp = 2;
  question.cost = [](const ParallelGrid& grid) {
    Costs cost = cost_from_hardware(testing::small_cost().shape, Dtype::kBf16, HardwareSpec{},
                                    grid.tp, grid.dp);
    cost.device.memory = Bytes(1'000'000'000);
    cost.device.gpu.emplace().multiprocessors = 132;
    return cost;
  };
  return question;
}

TEST(FitAdvice, SaysWhatKernelsMessagesAndReductionsAddOnAGpu) {
  const FitQuestion question = question_of_gpus();
  const FitAdvice advice = fit_advice(question);
  for (const RankMemoryUse& stage : advice.wish.ranks) {
    EXPECT_GT(stage.gpu.kernels, Bytes(0));
    // The longest sequence's hidden states are 4,000 · 64 · 2 bytes; no pack has more, or most have
    // a good part of them.
    EXPECT_GT(stage.gpu.messages, Bytes(0));
    EXPECT_LE(stage.gpu.messages, Bytes(3 * 7200 * 128));
    // Two replicas send half of the own gradients at most.
    EXPECT_GE(stage.gpu.reductions, Bytes(0));
    EXPECT_LE(stage.gpu.reductions, stage.states.gradients / 2);
    EXPECT_LT(stage.gpu.total(), stage.activations);
  }
  FitQuestion cpu = question;
  cpu.cost = [&](const ParallelGrid& grid) {
    Costs cost = question.cost(grid);
    cost.device.gpu.reset();
    return cost;
  };
  for (const RankMemoryUse& stage : fit_advice(cpu).wish.ranks)
    EXPECT_EQ(stage.gpu, GpuActivations());
}

TEST(FitAdvice, NeedsAMemoryOrACap) {
  FitQuestion question = small_question(Bytes(0));
  EXPECT_THROW((void)fit_advice(question), InvalidInput);
  question.job.memory_cap = Bytes(1'000'000'000);
  const FitAdvice advice = fit_advice(question);
  EXPECT_TRUE(advice.wish.fits);
  const RankMemoryUse& stage = advice.wish.ranks.front();
  EXPECT_EQ(stage.capacity, stage.states.total() + Bytes(1'000'000'000));
}

}  // namespace
}  // namespace slimpack
