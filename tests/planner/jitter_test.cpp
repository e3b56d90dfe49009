// Durations that change from one run of a step to the next.
#include "bench/jitter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

/// One rank runs `packs` forward, each so many ns.
Timeline forwards(const std::vector<std::int64_t>& durations) {
  Timeline out;
  out.ranks = 1;
  Nanos now(0);
  for (std::size_t p = 0; p < durations.size(); ++p) {
    const Nanos end = now + Nanos(durations[p]);
    out.spans.push_back({0, SpanKind::kForward, PackId(p), 0, now, end});
    now = end;
  }
  return out;
}

// A twice as slow machine delays every action alike.
TEST(Jitter, IsNotASlowerMachine) {
  const std::vector<Timeline> measured{forwards({1000, 5000, 200}), forwards({2000, 10000, 400})};
  EXPECT_NEAR(jitter_of(measured), 0, 1e-12);
}

// Two equal packs; one takes e^0.2 times as long in the second run, the other e^-0.2 times. Each
// logarithm is 0.1 from the mean of its pack in both runs, and runs have nothing in common:
// sqrt(0.1^2 + 0.1^2), the sample deviation of {0, 0.2}.
TEST(Jitter, IsTheDeviationOfLogarithms) {
  const std::int64_t second = 1'000'000'000;
  const auto times = [&](double log) {
    return static_cast<std::int64_t>(std::lround(std::exp(log) * second));
  };
  const std::vector<Timeline> measured{forwards({times(-0.1), times(0.1)}),
                                       forwards({times(0.1), times(-0.1)})};
  EXPECT_NEAR(jitter_of(measured), 0.1 * std::sqrt(2), 1e-6);
}

// Three runs of 2000 packs, the logarithms uniform within ±0.3: deviation 0.6 / sqrt(12) = 0.1732.
// The estimate itself deviates by less than 0.1732 / sqrt(2 · 2 · 2000) = 1.1%.
TEST(Jitter, RecoversWhatWasPutIn) {
  Rng rng(1);
  std::vector<Timeline> measured;
  for (int run = 0; run < 3; ++run) {
    std::vector<std::int64_t> durations(2000);
    for (std::int64_t& duration : durations)
      duration = std::lround(1e6 * std::exp(0.6 * (rng.uniform() - 0.5)));
    measured.push_back(forwards(durations));
  }
  EXPECT_NEAR(jitter_of(measured) / 0.1732, 1, 0.045);
}

// Work that takes a billionth of the time may vary as it likes; waits are no work.
TEST(Jitter, CountsWorkByItsTime) {
  std::vector<Timeline> measured{forwards({2'000'000'000, 1}), forwards({2'000'000'000, 3})};
  measured[0].spans.push_back({0, SpanKind::kWaitReceive, PackId(2), 0, Nanos(0), Nanos(1)});
  measured[1].spans.push_back({0, SpanKind::kWaitReceive, PackId(2), 0, Nanos(0), Nanos(900)});
  EXPECT_LT(jitter_of(measured), 1e-4);
}

TEST(Jitter, LeavesOutWhatOnlySomeTimelinesShow) {
  EXPECT_EQ(jitter_of(std::vector{forwards({100}), forwards({})}), 0);
}

PlanRequest four_stages() {
  PlanRequest request{.lengths = {}, .pp = 4};
  for (int d = 0; d < 12; ++d) request.lengths.emplace_back(300 + 210 * d % 900);
  return request;
}

TEST(Jitter, OfNothingIsThePrediction) {
  const Costs cost = small_cost();
  const RatedPlan step = *plan_step(four_stages(), cost).step;
  const JitteredStep jittered = predict_with_jitter(step, cost, 0, 3);
  EXPECT_EQ(jittered.makespan, step.prediction.makespan);
  EXPECT_NEAR(jittered.bubble_ratio, step.prediction.bubble_ratio, 1e-12);
}

// One rank never waits, so that its step lasts as long as its actions do: the mean over many draws
// is the prediction. At least 2 actions of deviation 0.2 in each of 200 draws: 0.2 / sqrt(400) =
// 1%, and four times that is not seen.
TEST(Jitter, OfOneRankKeepsTheMean) {
  PlanRequest request = four_stages();
  request.pp = 1;
  const Costs cost = small_cost();
  const RatedPlan step = *plan_step(request, cost).step;
  const JitteredStep jittered = predict_with_jitter(step, cost, 0.2, 200);
  EXPECT_NEAR(to_seconds(jittered.makespan) / to_seconds(step.prediction.makespan), 1, 0.04);
  EXPECT_EQ(jittered.bubble_ratio, 0);
}

// Stages that wait for each other lose by every delay and gain little by what is early.
TEST(Jitter, MakesAPipelineWait) {
  const Costs cost = small_cost();
  const RatedPlan step = *plan_step(four_stages(), cost).step;
  const JitteredStep some = predict_with_jitter(step, cost, 0.1);
  const JitteredStep much = predict_with_jitter(step, cost, 0.4);
  EXPECT_GT(some.bubble_ratio, step.prediction.bubble_ratio);
  EXPECT_GT(much.bubble_ratio, some.bubble_ratio);
  EXPECT_GT(much.makespan, step.prediction.makespan);
}

TEST(Jitter, NeedsTwoTimelines) {
  const std::vector one{forwards({100})};
  EXPECT_THROW((void)jitter_of(one), InternalError);
}

}  // namespace
}  // namespace slimpack
