#include "slimpack/report/comparison.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/random_baseline_job.h"

namespace slimpack {
namespace {

/// Comparisons of each baseline over random lists, grids and memory caps.
class RandomComparisons : public ::testing::Test {
 protected:
  template <class Check>
  static void each(std::uint64_t from, std::uint64_t to, const Check& check) {
    const Costs cost = testing::small_cost(8);
    for (std::uint64_t seed = from; seed < to; ++seed) {
      SCOPED_TRACE(seed);
      Rng rng(seed);
      testing::PlanRequest request = testing::random_baseline_job(rng);
      const RatedPlan any = baseline_step(baselines()[rng.below(9)], request, cost);
      if (rng.below(4) > 0)
        request.memory_cap =
            step_need(any, cost).bytes * (20 + static_cast<std::int64_t>(rng.below(120))) / 100;
      const std::array jobs{request.job(cost)};
      for (const Baseline& baseline : baselines()) {
        SCOPED_TRACE(baseline.name);
        check(compared(std::string(baseline.name), jobs, request.lengths, request.choices(), cost),
              request.memory_cap);
      }
    }
  }
};

TEST_F(RandomComparisons, NeverShowATunedStepThatIsLongerThanThePublishedOne) {
  int above_both = 0, above_published = 0, shorter = 0;
  each(300, 320, [&](const ComparedPlanner& row, const std::optional<Bytes>& cap) {
    ASSERT_TRUE(row.figures);
    const bool published_fits = !cap || row.published_peak <= *cap;
    // Without a time: it is above the cap, which the tuned step keeps.
    EXPECT_EQ(row.published.has_value(), published_fits || !fits(row, cap));
    if (!row.published) {
      ++above_published;
      return;
    }
    EXPECT_LE(row.figures->makespan, *row.published);
    EXPECT_TRUE(!published_fits || fits(row, cap));
    // Where the published form is above the cap, the tuned one may be, too, but needs no more
    // memory.
    EXPECT_TRUE(published_fits || row.figures->peak <= row.published_peak);
    above_both += published_fits ? 0 : 1;
    shorter += row.figures->makespan < *row.published ? 1 : 0;
  });
  EXPECT_GT(above_both, 0);
  EXPECT_GT(above_published, 0);
  EXPECT_GT(shorter, 0);
}

TEST_F(RandomComparisons, SayWhatAPublishedSettingAboveTheCapNeeds) {
  int said = 0;
  each(400, 406, [&](const ComparedPlanner& row, const std::optional<Bytes>& cap) {
    const std::string text = comparison_text({row}, cap, 200);
    const nlohmann::json figures = to_json(row);
    EXPECT_EQ(figures.contains("published_makespan_ns"), row.published.has_value());
    if (row.published) return;
    EXPECT_NE(text.find("needs "), std::string::npos) << text;
    ++said;
  });
  EXPECT_GT(said, 0);
}

TEST(Comparison, OnStagesThatTurnBackGivesBaselinesThatDoNotKnowThemOneStageARank) {
  testing::PlanRequest request{
      .lengths = SequenceLengths(8, Tokens(500)), .pp = 2, .context = Tokens(512)};
  const Costs cost = testing::small_cost(8);
  const std::array single{request.job(cost)};
  request.layout = balanced_layout(cost, request.lengths, 2, 2, false, LastStage::kBothPasses,
                                   PlacementStyle::kV);
  const std::array turning{request.job(cost)};
  int one_stage = 0;
  for (const Baseline& baseline : baselines()) {
    SCOPED_TRACE(baseline.name);
    const auto row = [&](std::span<const Job> jobs) {
      ComparedPlanner out =
          compared(std::string(baseline.name), jobs, request.lengths, request.choices(), cost);
      out.planning = Nanos(0);
      return out;
    };
    const ComparedPlanner there = row(turning);
    if (baseline.traits.turns_back) {
      EXPECT_TRUE(there.figures);
      continue;
    }
    ++one_stage;
    EXPECT_EQ(there.stages_per_rank, 1);
    EXPECT_EQ(to_json(there), to_json(row(single)));
  }
  EXPECT_GT(one_stage, 0);
}

}  // namespace
}  // namespace slimpack
