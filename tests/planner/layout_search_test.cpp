#include "slimpack/planner/layout_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::small_cost;

/// Every pp × dp of so many ranks.
std::vector<ParallelGrid> grids_of(std::int32_t ranks) {
  std::vector<ParallelGrid> grids;
  for (std::int32_t pp = 1; pp <= std::min(ranks, 6); ++pp)
    if (ranks % pp == 0) grids.push_back({.pp = pp, .dp = ranks / pp});
  return grids;
}

struct Case {
  LayoutQuestion question;
  /// The sum of all steps, each planned by itself; absent: a step does not fit.
  std::map<std::int32_t, std::optional<Nanos>> planned;  ///< by pp
};

Case random_case(Rng& rng, std::optional<Bytes> cap) {
  Case made;
  const std::int32_t ranks = 4 << rng.below(2);
  for (int s = 0; s < 3; ++s) made.question.steps.push_back(testing::random_request(rng).lengths);
  made.question.grids = grids_of(ranks);
  made.question.best = 1 + rng.below(3);
  made.question.job = [cap, lengths = made.question.steps.front()](const ParallelGrid& grid) {
    Costs cost = small_cost(grid.dp);
    Job job{.layout = balanced_layout(cost, lengths, grid.pp),
            .replicas = grid.dp,
            .memory_cap = cap,
            .context = Tokens(1 << 20)};
    return std::optional(LayoutJob{std::move(cost), std::move(job), {.granularity = Tokens(32)}});
  };
  for (const ParallelGrid& grid : made.question.grids) {
    const LayoutJob on = *made.question.job(grid);
    std::optional<Nanos> sum = Nanos(0);
    for (const SequenceLengths& lengths : made.question.steps) {
      const PlanOutcome outcome = plan_step({on.job, lengths, on.choices, on.cost});
      if (!outcome.step) sum.reset();
      if (sum) *sum += outcome.step->prediction.makespan;
    }
    made.planned[grid.pp] = sum;
  }
  return made;
}

Nanos sum_of(const RatedLayout& layout) {
  Nanos sum;
  for (const LayoutStep& step : layout.steps) sum += step.makespan;
  return sum;
}

TEST(LayoutSearch, OrdersLayoutsAsPlanningAllOfThemWould) {
  int behind = 0;
  Rng rng(31);
  for (int n = 0; n < 12; ++n) {
    const Case asked = random_case(rng, std::nullopt);
    const std::vector<RatedLayout> found = search_layouts(asked.question);
    ASSERT_EQ(found.size(), asked.question.grids.size());
    std::vector<Nanos> best;
    for (const auto& [pp, sum] : asked.planned) best.push_back(*sum);
    std::ranges::sort(best);
    const Nanos worst_wanted = best[std::min(best.size(), asked.question.best) - 1];
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Nanos planned = *asked.planned.at(found[i].grid.pp);
      EXPECT_LE(found[i].bound * 3, planned);
      if (found[i].outcome == LayoutOutcome::kRated) {
        EXPECT_EQ(sum_of(found[i]), planned);
        EXPECT_LE(found[i == 0 ? 0 : i - 1].mean(), found[i].mean());
      } else {
        ASSERT_EQ(found[i].outcome, LayoutOutcome::kBehind);
        EXPECT_GE(planned, worst_wanted);
        ++behind;
      }
    }
    for (std::size_t i = 0; i < std::min(best.size(), asked.question.best); ++i)
      EXPECT_EQ(sum_of(found[i]), best[i]);
  }
  EXPECT_GT(behind, 0);
}

TEST(LayoutSearch, PlansAllStepsOfUsualLayouts) {
  Rng rng(32);
  for (int n = 0; n < 6; ++n) {
    Case asked = random_case(rng, std::nullopt);
    asked.question.best = 1;
    asked.question.usual = asked.question.grids;
    for (const RatedLayout& layout : search_layouts(asked.question)) {
      EXPECT_EQ(layout.outcome, LayoutOutcome::kRated);
      EXPECT_EQ(layout.steps.size(), 3u);
    }
  }
}

TEST(LayoutSearch, SaysWhichStepsDoNotFit) {
  int too_large = 0;
  Rng rng(33);
  for (int n = 0; n < 12; ++n) {
    const Bytes cap(50'000 << rng.below(6));
    const Case asked = random_case(rng, cap);
    std::int64_t steps = 0;
    LayoutQuestion question = asked.question;
    question.progress = [&](std::int64_t more) { steps += more; };
    for (const RatedLayout& layout : search_layouts(question)) {
      const std::optional<Nanos>& planned = asked.planned.at(layout.grid.pp);
      EXPECT_EQ(layout.left, cap);
      if (layout.outcome == LayoutOutcome::kRated) {
        EXPECT_EQ(sum_of(layout), planned);
        for (const LayoutStep& step : layout.steps) EXPECT_GE(step.headroom, Bytes(0));
      } else if (layout.outcome == LayoutOutcome::kStepTooLarge) {
        EXPECT_FALSE(planned);
        EXPECT_TRUE(!layout.why || layout.why->needed > cap);
        ++too_large;
      }
    }
    EXPECT_EQ(steps, static_cast<std::int64_t>(3 * question.grids.size()));
  }
  EXPECT_GT(too_large, 0);
}

TEST(LayoutSearch, DividesAStepIntoWorkWaitingAndItsEnd) {
  Rng rng(34);
  for (int n = 0; n < 6; ++n) {
    for (const RatedLayout& layout : search_layouts(random_case(rng, std::nullopt).question))
      for (const LayoutStep& step : layout.steps) {
        EXPECT_GT(step.work, Nanos(0));
        EXPECT_GE(step.end, Nanos(0));
        EXPECT_LE(step.work, step.makespan);
        EXPECT_EQ(step.work + step.wait() + step.end, step.makespan);
      }
  }
}

/// Layouts with two stages a rank; each planned by itself beside the layout as it is.
TEST(LayoutSearch, TakesASmallChangeWhereItsStepsAreShorter) {
  Rng rng(35);
  int taken = 0;
  for (int n = 0; n < 6; ++n) {
    Case asked = random_case(rng, std::nullopt);
    LayoutQuestion& question = asked.question;
    question.best = question.changed = question.grids.size();  // every order is wanted
    question.job = [lengths = question.steps.front()](const ParallelGrid& grid) {
      Costs cost = small_cost(grid.dp);
      Job job{.layout = balanced_layout(cost, lengths, grid.pp, grid.stages_per_rank),
              .replicas = grid.dp,
              .context = Tokens(1 << 20)};
      return std::optional(LayoutJob{std::move(cost), std::move(job), {.granularity = Tokens(32)}});
    };
    question.changes = [](const ParallelGrid& grid) {
      std::vector<ParallelGrid> changes;
      if (grid.pp > 1 && 2 * grid.pp <= 6) changes.push_back(grid);
      for (ParallelGrid& changed : changes) changed.stages_per_rank = 2;
      return changes;
    };
    std::int64_t told = 0, more = 0;
    question.more = [&](std::int64_t steps) { more += steps; };
    question.progress = [&](std::int64_t steps) { told += steps; };
    for (const RatedLayout& layout : search_layouts(question)) {
      ASSERT_EQ(layout.outcome, LayoutOutcome::kRated);
      std::vector<Nanos> sums{*asked.planned.at(layout.grid.pp)};
      for (const ParallelGrid& changed :
           question.changes({.pp = layout.grid.pp, .dp = layout.grid.dp})) {
        const LayoutJob on = *question.job(changed);
        Nanos sum;
        for (const SequenceLengths& lengths : question.steps)
          sum += plan_step({on.job, lengths, on.choices, on.cost}).step->prediction.makespan;
        sums.push_back(sum);
      }
      EXPECT_EQ(sum_of(layout), std::ranges::min(sums));
      EXPECT_EQ(layout.grid.stages_per_rank == 2, sums.size() == 2 && sums[1] < sums[0]);
      taken += layout.grid.stages_per_rank == 2 ? 1 : 0;
    }
    EXPECT_EQ(told, more + 3 * std::ssize(question.grids));
  }
  EXPECT_GT(taken, 0);
}

TEST(LayoutSearch, SplitsBackwardsWhereThatIsShorterWhateverElseItChanged) {
  // Split backwards are never longer. Another change, once taken, does not keep them away.
  Rng rng(37);
  int split = 0;
  for (int n = 0; n < 4; ++n) {
    LayoutQuestion question = random_case(rng, std::nullopt).question;
    question.best = question.changed = question.grids.size();
    question.tries_split = true;
    const auto job = question.job;
    question.job = [job](const ParallelGrid& grid) {
      std::optional<LayoutJob> on = job(grid);
      on->job.layout = balanced_layout(on->cost, {Tokens(1000)}, grid.pp, grid.stages_per_rank);
      return on;
    };
    question.changes = [](const ParallelGrid& grid) {
      std::vector<ParallelGrid> changes;
      if (grid.pp > 1 && 2 * grid.pp <= 6 && grid.stages_per_rank == 1) changes.push_back(grid);
      for (ParallelGrid& changed : changes) changed.stages_per_rank = 2;
      return changes;
    };
    for (const RatedLayout& layout : search_layouts(question)) {
      LayoutJob on = *question.job(layout.grid);
      Nanos whole, with_split;
      for (const SequenceLengths& lengths : question.steps) {
        on.choices.backward = BackwardKind::kWhole;
        whole += plan_step({on.job, lengths, on.choices, on.cost}).step->prediction.makespan;
        on.choices.backward = BackwardKind::kSplit;
        with_split += plan_step({on.job, lengths, on.choices, on.cost}).step->prediction.makespan;
      }
      EXPECT_EQ(layout.splits_backwards, with_split < whole);
      EXPECT_EQ(sum_of(layout), std::min(whole, with_split));
      split += layout.splits_backwards ? 1 : 0;
    }
  }
  EXPECT_GT(split, 0);
}

TEST(LayoutSearch, MakesRoomByASmallChange) {
  LayoutQuestion question;
  question.steps = {{Tokens(100), Tokens(40)}};
  question.grids = {{.pp = 1, .dp = 2}, {.pp = 2, .dp = 1}};
  question.job = [](const ParallelGrid& grid) -> std::optional<LayoutJob> {
    if (grid.dp == 2 && grid.zero == 1) return std::nullopt;
    const Costs cost = small_cost();
    return LayoutJob{cost,
                     {.layout = balanced_layout(cost, {Tokens(100)}, grid.pp),
                      .replicas = grid.dp,
                      .context = Tokens(100)},
                     {}};
  };
  question.changes = [](ParallelGrid grid) {
    grid.zero = 3;
    return std::vector{grid};
  };
  const std::vector<RatedLayout> found = search_layouts(question);
  ASSERT_EQ(found.size(), 2u);
  for (const RatedLayout& layout : found) {
    EXPECT_EQ(layout.outcome, LayoutOutcome::kRated);
    EXPECT_EQ(layout.grid.zero, layout.grid.dp == 2 ? 3 : 1);
  }
}

TEST(LayoutSearch, LeavesOutModelsThatFillTheMemory) {
  LayoutQuestion question;
  question.steps = {{Tokens(100)}};
  question.grids = {{.pp = 1, .dp = 2}, {.pp = 2, .dp = 1}};
  question.job = [](const ParallelGrid& grid) -> std::optional<LayoutJob> {
    if (grid.pp == 1) return std::nullopt;
    const Costs cost = small_cost();
    return LayoutJob{
        cost, {.layout = balanced_layout(cost, {Tokens(100)}, 2), .context = Tokens(100)}, {}};
  };
  const std::vector<RatedLayout> found = search_layouts(question);
  EXPECT_EQ(found[0].outcome, LayoutOutcome::kRated);
  EXPECT_EQ(found[1].outcome, LayoutOutcome::kModelTooLarge);
  EXPECT_EQ(found[1].grid.pp, 1);
}

}  // namespace
}  // namespace slimpack
