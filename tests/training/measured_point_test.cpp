#include "slimpack/training/measured_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "slimpack/job/sweep_axes.h"
#include "slimpack/training/configured_profile.h"
#include "tests/support/expect_error.h"
#include "tests/training/small_run.h"

namespace slimpack {
namespace {

using testing::SmallRun;

SweepFigures figures(std::int64_t predicted, std::int64_t measured, double bubble,
                     std::size_t packs) {
  SweepFigures f;
  f.tokens = Tokens(100 * measured);
  f.predicted = {Nanos(predicted), bubble / 2, Bytes(10 * predicted)};
  f.measured = {Nanos(measured), bubble, Bytes(10 * measured)};
  f.forward_packs = packs;
  f.backward_packs = packs + 1;
  f.slices = 10 * packs;
  f.overhead = bubble / 10;
  return f;
}

TEST(MedianFigures, AreTheMediansOfEachFigure) {
  // Each figure's middle one is of another step.
  const SweepFigures middle =
      median_figures({figures(10, 90, 0.2, 5), figures(30, 50, 0.6, 4), figures(20, 70, 0.8, 6)});
  EXPECT_EQ(middle.tokens, Tokens(7000));
  EXPECT_EQ(middle.predicted.makespan, Nanos(20));
  EXPECT_EQ(middle.predicted.bubble, 0.3);
  EXPECT_EQ(middle.predicted.peak, Bytes(200));
  EXPECT_EQ(middle.measured->makespan, Nanos(70));
  EXPECT_EQ(middle.measured->bubble, 0.6);
  EXPECT_EQ(middle.measured->peak, Bytes(700));
  EXPECT_EQ(middle.forward_packs, 5u);
  EXPECT_EQ(middle.backward_packs, 6u);
  EXPECT_EQ(middle.slices, 50u);
  EXPECT_DOUBLE_EQ(middle.overhead, 0.06);
}

/// A job of the small run with these settings and axes of one value each.
SweepJob job_of(const SmallRun& small, const std::vector<std::string>& settings,
                const std::vector<std::string>& over = {}) {
  SweepJob job{{}, small.config(settings), {}};
  for (const SweepAxis& axis : sweep_axes(over)) {
    keep_to(job.search, axis, axis.values.front());
    job.at.push_back(0);
  }
  return job;
}

Costs costs_of(const SweepJob& job) {
  return SweepCosts([](const std::string& line) { ADD_FAILURE() << line; }).of(job.config);
}

bool never() {
  return false;
}

TEST(MeasuredPoint, HasWhatItsStepsTookBesideWhatWasPredicted) {
  const SmallRun small;
  const SweepJob job =
      job_of(small, {"parallel.pp=2", "train.max_tokens=1"}, {"packs=2", "order=0"});
  int steps = 0;
  const SweepPoint point = measured_point(
      job, costs_of(job), 4, [&] { ++steps; }, never);
  EXPECT_EQ(steps, 4);  // the run's own limits are those of training
  EXPECT_EQ(point.at, job.at);
  ASSERT_TRUE(point.figures && point.figures->measured);
  const SweepFigures& f = *point.figures;
  EXPECT_EQ(f.tokens, Tokens(69));  // all four documents
  EXPECT_LE(std::max(f.forward_packs, f.backward_packs), 2u);
  EXPECT_GT(f.measured->makespan, Nanos(0));
  EXPECT_GT(f.measured->bubble, 0);
  EXPECT_LT(f.measured->bubble, 1);
  EXPECT_GT(f.predicted.makespan, Nanos(0));
  EXPECT_FALSE(std::filesystem::exists(job.config.output.dir));
}

TEST(MeasuredPoint, IsPlannedWithTheCostsItIsGiven) {
  const SmallRun small;
  const SweepJob job = job_of(small, {}, {"packs=3"});
  Costs cost = costs_of(job);
  const auto predicted = [&] {
    return measured_point(
               job, cost, 2, [] {}, never)
        .figures->predicted.makespan;
  };
  const Nanos usual = predicted();
  cost.kinds.front().forward.per_pack += 1e9;
  EXPECT_GT(predicted(), usual + from_seconds(1));
}

TEST(MeasuredPoint, SaysThatAStepDoesNotFit) {
  const SmallRun small;
  const SweepJob job = job_of(small, {"plan.memory_cap=1kB"});
  const SweepPoint point = measured_point(
      job, costs_of(job), 2, [] {}, never);
  EXPECT_FALSE(point.figures);
  EXPECT_NE(point.misfit.find("plan.memory_cap"), std::string::npos) << point.misfit;
}

TEST(MeasuredPoint, StopsWhenItIsAskedTo) {
  const SmallRun small;
  const SweepJob job = job_of(small, {});
  std::atomic<bool> stop = false;
  int steps = 0;
  const auto on_step = [&] { stop = ++steps == 2; };
  EXPECT_THROW((void)measured_point(job, costs_of(job), 100, on_step, [&] { return stop.load(); }),
               Interrupted);
  EXPECT_EQ(steps, 2);
}

TEST(MeasuredPoint, RefusesWhatCannotBeTrained) {
  const SmallRun small;
  const SweepJob job = job_of(small, {"data.prefix=nowhere"});
  expect_invalid_input(
      [&] {
        (void)measured_point(
            job, costs_of(job), 2, [] {}, never);
      },
      {"nowhere"});
}

}  // namespace
}  // namespace slimpack
