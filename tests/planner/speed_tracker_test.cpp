// Speeds that measured steps show, in a closed loop without a machine: the simulator, with the true
// speeds, stands for the measurement.
#include "slimpack/planner/speed_tracker.h"

#include <gtest/gtest.h>

#include "slimpack/base/random.h"
#include "slimpack/planner/planner.h"
#include "tests/support/small_cost.h"

namespace slimpack {
namespace {

Costs costs() {
  return testing::small_cost(2);
}

SequenceLengths lengths(std::uint64_t seed) {
  Rng rng(seed);
  SequenceLengths all;
  for (int i = 0; i < 60; ++i)
    all.emplace_back(256 + static_cast<std::int64_t>(rng.below(rng.below(6) == 0 ? 30'000 : 3000)));
  return all;
}

RatedPlan planned(const RankSpeeds& speeds, std::uint64_t seed) {
  const Job job{.layout = {{0, 3, 6}}, .replicas = 2, .speed = speeds, .context = Tokens(32'768)};
  return *plan_step({job, lengths(seed), {.granularity = Tokens(256)}, costs()}).step;
}

/// The step as ranks of these speeds run it, each action jittered by up to `jitter` either way.
Timeline measured(RatedPlan step, const RankSpeeds& true_speeds, double jitter = 0,
                  std::uint64_t seed = 0) {
  step.speed = true_speeds;
  Timeline timeline = predict(step, costs()).timeline;
  Rng rng(seed);
  // Durations alone are read, so that spans may overlap here.
  for (Span& span : timeline.spans) {
    const auto length = static_cast<double>((span.end - span.start).count());
    const double factor = 1 + jitter * (2 * rng.uniform() - 1);
    span.end = span.start + Nanos(static_cast<std::int64_t>(factor * length));
  }
  return timeline;
}

const RankSpeeds kSlowed{{1, 1}, {1, 1 / 1.5}};

TEST(MeasuredSpeeds, AreThoseOfTheRanksWhateverThePlanAssumed) {
  for (const RankSpeeds& assumed : {RankSpeeds{}, RankSpeeds{{1, 0.8}, {0.5, 1}}}) {
    const RatedPlan step = planned(assumed, 1);
    const RankSpeeds found = measured_speeds(step, costs(), measured(step, kSlowed));
    ASSERT_EQ(found.size(), 2U);
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t p = 0; p < 2; ++p) EXPECT_NEAR(found[r][p], kSlowed[r][p], 1e-3);
  }
}

TEST(MeasuredSpeeds, AreThePlansOwnWhenEveryActionTakesItsTime) {
  // The simulator draws the spans, so what a task costs is compared with how long it is simulated:
  // split and whole backwards, two stages a rank, merged MicroPacks, two tensor-parallel ranks.
  const RankSpeeds assumed{{1, 0.8}, {0.5, 1}};
  for (const BackwardKind backward : {BackwardKind::kWhole, BackwardKind::kSplit})
    for (const StageLayout& layout :
         {StageLayout{{0, 3, 6}}, StageLayout{{0, 1, 3, 4, 6}, StagePlacement::looped(2, 2)}}) {
      const Job job{.layout = layout, .replicas = 2, .speed = assumed, .context = Tokens(32'768)};
      const RatedPlan step =
          *plan_step({job,
                      lengths(2),
                      {.granularity = Tokens(256), .most_merged = 2, .backward = backward},
                      costs()})
               .step;
      const Timeline measured = with_tensor_ranks(predict(step, costs()).timeline, 2);
      EXPECT_EQ(measured_speeds(step, costs(), measured), assumed);
    }
}

TEST(SpeedTracker, GivesASlowedRankLessWorkWithinTenStepsOfTheBestPlan) {
  SpeedTracker tracker;
  Nanos last, best;
  for (std::uint64_t step = 0; step < 10; ++step) {
    const RatedPlan plan = planned(tracker.speeds(), step);
    last = metrics_of(measured(plan, kSlowed)).makespan;
    best = planned(kSlowed, step).prediction.makespan;
    tracker.add(measured_speeds(plan, costs(), measured(plan, kSlowed, 0.1, step)));
  }
  EXPECT_LE(static_cast<double>(last.count()), 1.05 * static_cast<double>(best.count()));
  // Without it the step is far longer.
  const Nanos unaware = metrics_of(measured(planned({}, 9), kSlowed)).makespan;
  EXPECT_GT(static_cast<double>(unaware.count()), 1.1 * static_cast<double>(best.count()));
}

TEST(SpeedTracker, ChangesNothingForNoise) {
  SpeedTracker tracker;
  Rng rng(3);
  const auto noisy = [&] { return 1 + 0.16 * (rng.uniform() - 0.5); };  // 8% either way
  for (int step = 0; step < 200; ++step)
    EXPECT_FALSE(tracker.add({{noisy(), noisy()}, {noisy(), noisy()}}));
  EXPECT_TRUE(tracker.speeds().empty());
}

TEST(SpeedTracker, IgnoresTwoBadStepsAndStaysWithinItsBounds) {
  SpeedTracker tracker;
  for (const double speed : {1.0, 1.0, 1.0, 0.2, 0.2, 1.0, 1.0})
    EXPECT_FALSE(tracker.add({{speed}}));
  for (int step = 0; step < 5; ++step) tracker.add({{0.001}});
  EXPECT_EQ(tracker.speeds(), (RankSpeeds{{0.25}}));
  for (int step = 0; step < 5; ++step) tracker.add({{1.0}});
  EXPECT_EQ(tracker.speeds(), (RankSpeeds{{1.0}}));
}

std::optional<std::string> told(const RankSpeeds& speeds, double makespan) {
  DriftWatch watch;
  const auto add = [&] {
    return watch.add(Nanos(1000), Nanos(static_cast<std::int64_t>(makespan)), {},
                     [&] { return speeds; });
  };
  for (int step = 0; step < 4; ++step) EXPECT_FALSE(add());
  const auto line = add();
  EXPECT_FALSE(add());  // only once
  return line;
}

TEST(DriftWatch, TellsOnceWithTheCause) {
  EXPECT_FALSE(told({{1, 1}, {1, 1}}, 1150));
  const auto has = [](const std::optional<std::string>& line, const char* text) {
    return line && line->find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(told({{1, 1}, {1, 0.5}}, 1900), "replica 1's pipeline rank 1 takes 2.00 ×"));
  EXPECT_TRUE(has(told({{0.5, 0.5}, {0.5, 0.5}}, 2000), "ranks take 2.00 × the time"));
  EXPECT_TRUE(has(told({{1, 1}, {1, 1}}, 1500), "but wait"));
  EXPECT_TRUE(has(told({{2, 2}, {2, 2}}, 500), "steps take 0.50 ×"));
}

}  // namespace
}  // namespace slimpack
