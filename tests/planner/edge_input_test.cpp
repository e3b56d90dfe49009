// Inputs at the edges of what can be planned: the right plan or a clear refusal, never a hang.
#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

void expect_correct(const PlanOutcome& outcome, const PlanRequest& request) {
  ASSERT_TRUE(outcome.step.has_value());
  const RatedPlan& step = *outcome.step;
  EXPECT_EQ(step.plan.replicas.size(), static_cast<std::size_t>(request.dp));
  EXPECT_EQ(check_plan(step.plan), std::vector<std::string>{});
  EXPECT_EQ(check_step(step.plan, step.schedules), std::vector<std::string>{});
  EXPECT_LE(step.lower_bound, step.prediction.makespan);
}

TEST(EdgeInput, OneToken) {
  for (const std::int32_t pp : {1, 6})
    for (const std::int32_t dp : {1, 8})
      for (const std::int32_t most_merged : {1, 8}) {
        if (most_merged > dp) continue;
        const PlanRequest request{
            .lengths = {Tokens(1)}, .pp = pp, .dp = dp, .most_merged = most_merged};
        const PlanOutcome outcome = plan_step(request, small_cost(8));
        expect_correct(outcome, request);
        // There is but one way, and the bound is that way: alone, because sharing one token saves
        // nothing and costs an exchange.
        EXPECT_LT(outcome.step->gap(), 1e-3);
      }
}

/// A short profile may find that some work takes no time at all.
TEST(EdgeInput, SequencesThatTakeNoTime) {
  Costs cost = small_cost(8);
  for (PackCost* time : {&cost.kinds.front().forward, &cost.kinds.front().backward})
    *time = {.per_pack = time->per_pack};
  for (const std::int32_t pp : {1, 2})
    for (const std::int32_t dp : {1, 4}) {
      const PlanRequest request{
          .lengths = {Tokens(3), Tokens(5), Tokens(64)}, .pp = pp, .dp = dp, .most_merged = dp};
      expect_correct(plan_step(request, cost), request);
    }
}

TEST(EdgeInput, MoreReplicasThanSequences) {
  PlanRequest request{.lengths = {Tokens(300), Tokens(100)}, .pp = 2, .dp = 8};
  for (const std::int32_t most_merged : {1, 2, 4, 8})
    for (const bool slow : {false, true}) {
      request.most_merged = most_merged;
      request.speed.clear();
      if (slow) request.speed.assign(8, {0.5, 1});
      expect_correct(plan_step(request, small_cost(8)), request);
    }
  request.planner = PlannerKind::kPacked;
  request.context = Tokens(300);
  expect_correct(plan_step(request, small_cost(8)), request);
}

TEST(EdgeInput, ManyEqualSequences) {
  PlanRequest request{.lengths = SequenceLengths(20'000, Tokens(100)), .pp = 4, .dp = 4};
  request.most_merged = 4;
  const PlanOutcome outcome = plan_step(request, small_cost(4));
  expect_correct(outcome, request);
  for (const ReplicaPlan& replica : outcome.step->plan.replicas)
    EXPECT_EQ(replica.sequences.size(), 5000U);
  EXPECT_LT(outcome.step->gap(), 0.05);
}

TEST(EdgeInput, ASequenceOfTenMillionTokens) {
  PlanRequest request{.lengths = {Tokens(10'000'000)}, .pp = 4};
  const Costs cost = small_cost(4);
  const PlanOutcome alone = plan_step(request, cost);
  expect_correct(alone, request);
  EXPECT_LT(alone.step->gap(), 0.1);
  request.dp = request.most_merged = 4;
  const PlanOutcome merged = plan_step(request, cost);
  expect_correct(merged, request);
  EXPECT_LT(merged.step->prediction.makespan * 3, alone.step->prediction.makespan);
}

TEST(EdgeInput, GranularityBeyondEverySequenceCutsNothing) {
  PlanRequest request{.lengths = {Tokens(1000), Tokens(500), Tokens(1)}, .pp = 2, .dp = 2};
  request.granularity = Tokens(2'147'483'647);
  const PlanOutcome outcome = plan_step(request, small_cost(2));
  expect_correct(outcome, request);
  for (const ReplicaPlan& replica : outcome.step->plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& slice : pack.slices)
        EXPECT_EQ(slice.length(), request.lengths[slice.sequence.index()]);
}

TEST(EdgeInput, ACapBelowTheLongestSequenceIsRefusedWithWhatWouldFit) {
  PlanRequest request{.lengths = {Tokens(8192), Tokens(64)}, .pp = 2, .dp = 2};
  request.memory_cap = Bytes(4'000'000);
  const PlanOutcome outcome = plan_step(request, small_cost(2));
  ASSERT_TRUE(outcome.does_not_fit.has_value());
  const DoesNotFit& why = *outcome.does_not_fit;
  EXPECT_EQ(why.longest, Tokens(8192));
  EXPECT_GT(why.longest_that_fits, Tokens(64));
  EXPECT_LT(why.longest_that_fits, Tokens(8192));
  EXPECT_GT(why.needed, why.cap);
  EXPECT_EQ(why.message().find('\n'), std::string::npos);
  request.lengths[0] = why.longest_that_fits;
  expect_correct(plan_step(request, small_cost(2)), request);
}

/// A request that can be planned, after `change`, is refused in one line with these parts.
template <class Change>
void expect_refused(Change change, std::initializer_list<std::string_view> parts) {
  PlanRequest request{.lengths = {Tokens(100), Tokens(50)}, .pp = 2, .dp = 4};
  change(request);
  expect_invalid_input([&] { (void)plan_step(request, small_cost(4)); }, parts);
}

TEST(BadRequest, NamesValueAndRemedy) {
  using R = PlanRequest;
  expect_refused([](R& r) { r.lengths.clear(); }, {"no sequences", "at least 1"});
  expect_refused([](R& r) { r.lengths[1] = Tokens(0); }, {"sequence 1 has 0 tokens", "leave"});
  expect_refused([](R& r) { r.lengths[0] = Tokens(-5); }, {"sequence 0 has -5 tokens"});
  expect_refused([](R& r) { r.dp = 0; }, {"0 replicas (parallel.dp)", "give 1 or more"});
  expect_refused([](R& r) { r.dp = -3; }, {"-3 replicas"});
  expect_refused([](R& r) { r.pp = 0; }, {"0 pipeline stages", "use 1 to 6"});
  expect_refused([](R& r) { r.pp = 7; }, {"7 pipeline stages", "use 1 to 6"});
  expect_refused([](R& r) { r.granularity = Tokens(0); }, {"granularity is 0", "128 is usual"});
  expect_refused([](R& r) { r.memory_cap = Bytes(0); }, {"cap is 0 bytes", "leave it out"});
  expect_refused([](R& r) { r.memory_cap = Bytes(-1); }, {"cap is -1 bytes"});
}

TEST(BadRequest, OfMerging) {
  using R = PlanRequest;
  expect_refused([](R& r) { r.most_merged = 0; }, {"up to 0 replicas", "1, 2, 4, 8"});
  expect_refused([](R& r) { r.most_merged = 3; }, {"up to 3 replicas", "1, 2, 4, 8"});
  expect_refused([](R& r) { r.most_merged = -2; }, {"up to -2 replicas"});
  expect_refused([](R& r) { r.most_merged = 8; }, {"up to 8 replicas", "there are 4"});
  // The cost model knows groups of up to four.
  expect_refused([](R& r) { r.dp = r.most_merged = 8; },
                 {"up to 8 replicas", "knows 4", "plan.most_merged", "[hardware]"});
}

TEST(BadRequest, OfSpeeds) {
  using R = PlanRequest;
  expect_refused([](R& r) { r.speed.assign(3, {1, 1}); }, {"of 3 replicas", "there are 4"});
  expect_refused([](R& r) { r.speed.assign(4, {1}); }, {"of 1 ranks", "replica 0", "there are 2"});
  for (const double speed : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    expect_refused(
        [&](R& r) {
          r.speed.assign(4, {1, 1});
          r.speed[2][1] = speed;
        },
        {"replica 2", "must be above 0"});
}

TEST(BadRequest, OfRowsThatAreOffloadedInNoKnownTime) {
  expect_refused(
      [](PlanRequest& r) {
        r.recompute = {Recompute::kMlp, Recompute::kOffload};
      },
      {"(plan.recompute)", "hardware.host_bandwidth", "choose another policy"});
}

TEST(BadRequest, OfTimesThatNoSearchCanCompare) {
  for (const double per_pair : {1e300, std::numeric_limits<double>::infinity()}) {
    Costs cost = small_cost();
    cost.origin.source = "a file";
    cost.kinds.front().backward.per_pair = per_pair;
    expect_invalid_input([&] { (void)plan_step(PlanRequest{.lengths = {Tokens(300)}}, cost); },
                         {"(a file)", "correct the cost model's times"});
  }
  expect_refused([](PlanRequest& r) { r.speed.assign(4, {1e-300, 1}); }, {"or the speeds"});
}

TEST(BadRequest, OfPacking) {
  using R = PlanRequest;
  const auto packed = [](R& r, std::int64_t context) {
    r.planner = PlannerKind::kPacked;
    r.context = Tokens(context);
  };
  expect_refused([&](R& r) { packed(r, 0); }, {"context is 0 tokens", "the least is 1"});
  expect_refused([&](R& r) { packed(r, 99); }, {"100", "99"});
}

}  // namespace
}  // namespace slimpack
