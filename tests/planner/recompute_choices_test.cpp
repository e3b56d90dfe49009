#include "slimpack/planner/recompute_choices.h"
#include "slimpack/cost/abilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::row_bytes;
using testing::small_cost;
using R = Recompute;

bool uniform(const RecomputeByLayer& recompute) {
  return std::ranges::adjacent_find(recompute, std::ranges::not_equal_to()) == recompute.end();
}

/// A request for six layers on `pp` stages.
struct Asked {
  explicit Asked(std::int32_t pp) {
    request.lengths = {Tokens(700), Tokens(40)};
    request.pp = pp;
    request.recompute = abilities(cost).recomputations;
    request.mixed_recompute = true;
  }
  [[nodiscard]] Job job() const { return request.job(cost); }
  [[nodiscard]] std::vector<RecomputeByLayer> choices() const {
    std::vector<RecomputeByLayer> out;
    for (const RecomputeChoice& choice :
         recompute_choices({job(), request.lengths, request.choices(), cost})) {
      EXPECT_EQ(choice.mixed, !uniform(choice.recompute));
      out.push_back(choice.recompute);
    }
    return out;
  }

  Costs cost = small_cost();
  PlanRequest request;
};

TEST(RecomputeChoices, AreThePoliciesAllowedWhereLayersMayNotDiffer) {
  Asked asked(2);
  asked.request.mixed_recompute = false;
  asked.request.recompute = {R::kFull, R::kNothing, R::kMlp};
  EXPECT_THAT(asked.choices(),
              ::testing::ElementsAre(RecomputeByLayer(6, R::kNothing), RecomputeByLayer(6, R::kMlp),
                                     RecomputeByLayer(6, R::kFull)));
}

TEST(RecomputeChoices, KeepNothingThatTakesNoTimeAway) {
  // On a GPU whose fused kernels give what kElementwise computes again, it takes as long as
  // kNothing and keeps less.
  Asked asked(2);
  const auto has = [&](R policy) {
    const auto choices = asked.choices();
    return std::ranges::any_of(choices, [&](const RecomputeByLayer& choice) {
      return std::ranges::find(choice, policy) != choice.end();
    });
  };
  EXPECT_TRUE(has(R::kNothing));
  asked.cost.kinds.front().elementwise = {};
  EXPECT_FALSE(has(R::kNothing));
  EXPECT_EQ(asked.choices().front(), RecomputeByLayer(6, R::kElementwise));
  // Rows in host memory take that: however fast, they leave the others their place.
  asked.cost.host.per_byte = 1e-9;
  asked.request.recompute = abilities(asked.cost).recomputations;
  for (const R policy : {R::kElementwise, R::kMlp, R::kFull, R::kOffload})
    EXPECT_TRUE(has(policy)) << to_string(policy);
  // A policy that is asked for is taken, whatever it costs.
  asked.request.recompute = {R::kNothing};
  EXPECT_TRUE(has(R::kNothing));
}

TEST(RecomputeChoices, AreCheapestFirstAndEachOnlyOnce) {
  const Asked asked(2);
  const auto choices = asked.choices();
  double before = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(std::ranges::find(choices, choices[i]), choices.begin() + static_cast<int>(i));
    const RecomputingCosts cost = with_recompute(asked.cost, choices[i]);
    double time = 0;
    for (std::int32_t s = 0; s < 2; ++s)
      for (const Tokens length : asked.request.lengths)
        time += stage_cost(cost, asked.job().layout, StageId(s),
                           Pass::kBackward)(Slice{SequenceId(), Tokens(0), length});
    EXPECT_GE(time, before * (1 - 1e-12));
    before = time;
  }
}

TEST(RecomputeChoices, MixTwoPoliciesWithTheStrongerOnTheFirstLayersOfEveryStage) {
  // Three layers on each stage: one or two of them differ.
  int mixed = 0;
  for (const RecomputeByLayer& choice : Asked(2).choices()) {
    if (uniform(choice)) continue;
    ++mixed;
    EXPECT_TRUE(std::equal(choice.begin(), choice.begin() + 3, choice.begin() + 3));
    EXPECT_GT(row_bytes(small_cost().shape, Dtype::kFp32, choice[2]),
              row_bytes(small_cost().shape, Dtype::kFp32, choice[0]));
    EXPECT_TRUE(choice[1] == choice[0] || choice[1] == choice[2]);
  }
  EXPECT_GE(mixed, 4);
  EXPECT_EQ(mixed % 2, 0);  // one and two layers of every pair
}

TEST(RecomputeChoices, LeaveMixturesOutWhereAStageHasOneLayer) {
  // Running attention again takes longer here than the MLP, and keeps more.
  EXPECT_THAT(
      Asked(6).choices(),
      ::testing::ElementsAre(RecomputeByLayer(6, R::kNothing), RecomputeByLayer(6, R::kElementwise),
                             RecomputeByLayer(6, R::kMlp), RecomputeByLayer(6, R::kFull)));
}

TEST(RecomputeChoices, MixNothingThatOtherMixturesBeat) {
  // Attention is so slow that nobody would run it again for the memory that it takes, unless there
  // is no other way: the MLP comes first, then everything.
  Asked asked(1);
  asked.cost.kinds.front().forward.per_pair *= 1000;
  for (const RecomputeByLayer& choice : asked.choices())
    if (!uniform(choice)) {
      EXPECT_EQ(std::ranges::count(choice, R::kAttention), 0);
    }
}

TEST(RecomputeChoices, DoNotDependOnTheMemoryCap) {
  Asked asked(2);
  const auto free = asked.choices();
  asked.request.memory_cap = Bytes(1);
  EXPECT_EQ(asked.choices(), free);
}

TEST(NeverFits, IsTrueBelowWhatTheLongestSequenceKeeps) {
  Asked asked(2);
  const auto never = [&](Recompute recompute = R::kElementwise) {
    return never_fits(asked.job().memory_cap, asked.request.lengths, asked.request.most_merged,
                      stage_table(asked.cost, asked.job(), recompute));
  };
  EXPECT_FALSE(never());  // no cap
  const Bytes kept =
      std::max(sequence_bytes(RecomputingCosts{asked.cost}, asked.job().layout, 0, Tokens(700)),
               sequence_bytes(RecomputingCosts{asked.cost}, asked.job().layout, 1, Tokens(700)));
  asked.request.memory_cap = kept;
  EXPECT_FALSE(never());
  asked.request.memory_cap = kept - Bytes(1);
  EXPECT_TRUE(never());
  EXPECT_FALSE(never(R::kFull));
  asked.request.most_merged = 2;  // half of it on each of two replicas
  EXPECT_FALSE(never());
}

TEST(CheapestTable, IsNoDearerInAnyTermThanAnyAllowedPolicy) {
  const Costs cost = small_cost();
  const Job job{.layout = {{0, 6}}};
  for (const std::vector<R>& allowed :
       {std::vector{R::kMlp}, {R::kMlp, R::kAttention}, {R::kFull, R::kNothing}, {R::kElementwise}})
    for (const R recompute : allowed) {
      const auto terms = [&](const StageTable& table) {
        return table.stage(StageId(std::int32_t{0}), Pass::kBackward);
      };
      const PackCost low = terms(cheapest_table(cost, job, allowed));
      const PackCost high = terms(stage_table(cost, job, recompute));
      EXPECT_LE(low.per_slice, high.per_slice);
      EXPECT_LE(low.per_token, high.per_token);
      EXPECT_LE(low.per_pair, high.per_pair);
      EXPECT_LE(low.per_prefix_token, high.per_prefix_token);
    }
  Costs linked = cost;
  linked.host.per_byte = 1;
  EXPECT_EQ(cheapest_table(linked, job, std::vector{R::kOffload, R::kFull}),
            stage_table(linked, job, R::kElementwise));
  EXPECT_EQ(cheapest_table(cost, job, std::vector{R::kMlp}), stage_table(cost, job, R::kMlp));
}

TEST(PlanStep, MixesPoliciesWhereThatIsEnough) {
  // A long sequence keeps a twentieth more than the cap if all layers keep their rows. Two layers
  // of six without gate and up, which are half of their rows, are enough.
  Asked asked(2);
  asked.request.lengths.assign(1, Tokens(16384));
  asked.request.mixed_recompute = false;
  asked.request.recompute = {R::kElementwise, R::kMlp};
  const Bytes kept =
      sequence_bytes(RecomputingCosts{asked.cost}, asked.job().layout, 0, Tokens(16384));
  asked.request.memory_cap = kept * 95 / 100;
  const RatedPlan one = *plan_step(asked.request, asked.cost).step;
  EXPECT_EQ(one.plan.recompute, RecomputeByLayer(6, R::kMlp));
  asked.request.mixed_recompute = true;
  const RatedPlan mixed = *plan_step(asked.request, asked.cost).step;
  EXPECT_FALSE(uniform(mixed.plan.recompute));
  EXPECT_LT(mixed.prediction.makespan, one.prediction.makespan);
  EXPECT_LE(step_need(mixed, asked.cost).bytes, *asked.request.memory_cap);
  EXPECT_EQ(mixed.lower_bound, one.lower_bound);
}

/// A long sequence that keeps a tenth more than the cap, where a byte takes so long to the host.
RatedPlan tight_step(double host_per_byte) {
  Asked asked(2);
  asked.cost.host.per_byte = host_per_byte;
  asked.request.lengths.assign(1, Tokens(16384));
  asked.request.recompute = abilities(asked.cost).recomputations;
  const Bytes kept =
      sequence_bytes(RecomputingCosts{asked.cost}, asked.job().layout, 0, Tokens(16384));
  asked.request.memory_cap = kept * 9 / 10;
  RatedPlan step = *plan_step(asked.request, asked.cost).step;
  EXPECT_LE(step_need(step, asked.cost).bytes, *asked.request.memory_cap);
  return step;
}

TEST(PlanStep, OffloadsWhereMemoryIsShortAndTheHostIsNear) {
  // A row of 2,448 bytes and a layer of 922 ns a token: at 0.1 ns a byte a layer hides it.
  const RatedPlan none = tight_step(0), near = tight_step(0.1), far = tight_step(10);
  const auto offloaded = [](const RatedPlan& step) {
    return std::ranges::count(step.plan.recompute, R::kOffload);
  };
  EXPECT_GT(offloaded(near), 0);
  EXPECT_LT(near.prediction.makespan, none.prediction.makespan);
  // At 10 ns a byte computing again is quicker.
  EXPECT_EQ(offloaded(far), 0);
  EXPECT_EQ(far.plan.recompute, none.plan.recompute);
}

TEST(PlanStep, KnowsTheHostMemoryThatItsRowsNeed) {
  Asked asked(2);
  asked.cost.host.per_byte = 0.1;
  asked.request.recompute = {R::kOffload};
  asked.request.lengths.assign(1, Tokens(1000));
  RatedPlan step = *plan_step(asked.request, asked.cost).step;
  // One sequence: all of its rows in three layers, once forward is through.
  const Bytes row = row_bytes(asked.cost.shape, asked.cost.dtype);
  EXPECT_EQ(host_need(step, asked.cost), row * 3 * 1000);
  step.plan.recompute.assign(6, R::kFull);
  EXPECT_EQ(host_need(step, asked.cost), Bytes(0));
}

TEST(PlanStep, CutsPacksThatHostMemoryIsTooSmallFor) {
  for (const PlannerKind planner :
       {PlannerKind::kSlimpack, PlannerKind::kSlimpipe, PlannerKind::kPacked}) {
    Asked asked(1);
    asked.cost.host.per_byte = 0.1;
    asked.request.planner = planner;
    asked.request.recompute = {R::kOffload};
    asked.request.lengths.assign(4, Tokens(1024));
    asked.request.context = Tokens(planner == PlannerKind::kPacked ? 1024 : 4096);
    const Bytes longest = row_bytes(asked.cost.shape, asked.cost.dtype) * 6 * 1024;
    asked.cost.host.memory = longest;  // the rows of one of four sequences
    const RatedPlan step = *plan_step(asked.request, asked.cost).step;
    EXPECT_LE(host_need(step, asked.cost), longest) << to_string(planner);
    EXPECT_GE(step.plan.replicas.front().packs.forward.size(), 4U) << to_string(planner);
  }
}

TEST(PlanStep, SaysThatHostMemoryIsTooSmall) {
  Asked asked(1);
  asked.cost.host.per_byte = 0.1;
  asked.cost.host.memory = Bytes(1000);
  asked.request.recompute = {R::kOffload};
  for (const PlannerKind planner :
       {PlannerKind::kSlimpack, PlannerKind::kSlimpipe, PlannerKind::kPacked}) {
    asked.request.planner = planner;
    asked.request.context = Tokens(16384);
    expect_invalid_input([&] { static_cast<void>(plan_step(asked.request, asked.cost)); },
                         {"1000 B of pinned host memory", "plan.recompute"});
  }
  // Rows that are computed again take no pinned memory.
  asked.request.planner = PlannerKind::kSlimpack;
  asked.request.recompute = {R::kOffload, R::kFull};
  EXPECT_EQ(plan_step(asked.request, asked.cost).step->plan.recompute,
            RecomputeByLayer(6, R::kFull));
}

TEST(PlanStep, OfFixedPackingComputesAgainWhatItMust) {
  Asked asked(2);
  asked.request.planner = PlannerKind::kPacked;
  asked.request.context = Tokens(1024);
  const RatedPlan free = *plan_step(asked.request, asked.cost).step;
  EXPECT_EQ(free.plan.recompute, RecomputeByLayer(6, R::kNothing));
  asked.request.memory_cap = step_need(free, asked.cost).bytes - Bytes(1);
  const RatedPlan tight = *plan_step(asked.request, asked.cost).step;
  EXPECT_GT(tight.prediction.makespan, free.prediction.makespan);
  EXPECT_LE(step_need(tight, asked.cost).bytes, *asked.request.memory_cap);
}

}  // namespace
}  // namespace slimpack
