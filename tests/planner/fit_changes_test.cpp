#include "slimpack/planner/fit_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace slimpack {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::vector<std::string> settings_of(const FitJob& wish,
                                     const std::vector<FitCandidate>& candidates) {
  std::vector<std::string> texts;
  for (const FitCandidate& candidate : candidates)
    texts.push_back(fmt::format("{} ranks: {}", candidate.job.grid.ranks(),
                                fmt::join(changed_settings(wish, candidate.job), " ")));
  return texts;
}

TEST(FitChanges, ComeMildestFirst) {
  const FitJob wish{.grid = {.pp = 2, .dp = 2}, .choices = {.most_merged = 1}};
  const FitLimits limits{.layers = 6, .heads = 4, .most_tp = 2};
  // Six layers allow no more than six stages, and two replicas can be halved once.
  EXPECT_THAT(
      settings_of(wish, single_changes(wish, limits)),
      ElementsAre("4 ranks: plan.recompute=auto", "4 ranks: plan.most_merged=2",
                  "4 ranks: parallel.tp=2 parallel.dp=1", "4 ranks: parallel.pp=4 parallel.dp=1",
                  "8 ranks: parallel.tp=2", "8 ranks: parallel.pp=4", "8 ranks: parallel.dp=4",
                  "16 ranks: parallel.dp=8", "32 ranks: parallel.dp=16"));
}

TEST(FitChanges, TakeTheOptimizerToTheHostWhereItsCostsAreKnown) {
  FitJob wish{.choices = {.mixed_recompute = true}};
  const FitLimits limits{.layers = 1, .merging = false, .offloads_optimizer = true};
  EXPECT_EQ(settings_of(wish, single_changes(wish, limits)).front(),
            "1 ranks: parallel.offload_optimizer=true");
  wish.grid.offload_optimizer = true;
  EXPECT_EQ(settings_of(wish, single_changes(wish, limits)).front(), "2 ranks: parallel.dp=2");
}

TEST(FitChanges, ShareReplicasOutBeforeAnythingThatTakesTime) {
  FitJob wish{.grid = {.dp = 2}};
  const FitLimits limits{.layers = 1, .merging = false, .shards_replicas = true};
  EXPECT_EQ(settings_of(wish, single_changes(wish, limits)).front(),
            "2 ranks: parallel.shard_replicas=true");
  EXPECT_EQ(settings_of(wish, single_changes(wish, limits))[1], "2 ranks: parallel.zero=3");
  // One replica has nobody to share with.
  wish.grid.dp = 1;
  EXPECT_EQ(settings_of(wish, single_changes(wish, limits)).front(),
            "1 ranks: plan.recompute=auto");
}

TEST(FitChanges, HaveNoMoreStagesThanLayers) {
  // Eight layers at two stages a rank: pp 4 is possible, pp 8 is not.
  const FitJob wish{.grid = {.pp = 2, .stages_per_rank = 2}};
  EXPECT_THAT(settings_of(wish, single_changes(wish, {.layers = 8})),
              AllOf(Contains("4 ranks: parallel.pp=4"), Not(Contains("8 ranks: parallel.pp=8"))));
}

TEST(FitChanges, LeaveOutWhatIsDoneAlready) {
  const FitJob wish{.grid = {.dp = 4},
                    .choices = {.most_merged = 2, .recompute = {Recompute::kMlp}}};
  const auto texts =
      settings_of(wish, single_changes(wish, {.layers = 1, .heads = 3, .most_tp = 8}));
  // One layer, three heads: neither pp nor tp can grow. dp 4 lets four replicas merge, not eight.
  EXPECT_THAT(texts, ElementsAre("4 ranks: plan.recompute=auto", "4 ranks: plan.most_merged=4",
                                 "8 ranks: parallel.dp=8", "16 ranks: parallel.dp=16",
                                 "32 ranks: parallel.dp=32"));
  FitJob all = wish;
  all.choices.recompute.assign(all_recomputations().begin(), all_recomputations().end());
  all.choices.mixed_recompute = true;
  EXPECT_THAT(settings_of(all, single_changes(all, {.layers = 1, .heads = 1, .merging = false})),
              ElementsAre("8 ranks: parallel.dp=8", "16 ranks: parallel.dp=16",
                          "32 ranks: parallel.dp=32"));
}

TEST(FitChanges, OfFixedPackingBeginWithThePlanner) {
  const FitJob wish{.choices = {.planner = PlannerKind::kPacked}};
  EXPECT_EQ(settings_of(wish, single_changes(wish, {.layers = 2})).front(),
            "1 ranks: plan.planner=slimpack");
}

TEST(FitChanges, PairsChangeTwoThingsFewestRanksFirst) {
  const FitJob wish{.grid = {.dp = 2}, .choices = {.most_merged = 1}};
  const FitLimits limits{.layers = 4, .heads = 8, .most_tp = 8};
  const auto pairs = double_changes(wish, limits);
  const auto texts = settings_of(wish, pairs);
  EXPECT_EQ(texts.front(), "2 ranks: plan.recompute=auto plan.most_merged=2");
  EXPECT_THAT(texts, Contains("2 ranks: plan.recompute=auto parallel.tp=2 parallel.dp=1"));
  EXPECT_THAT(texts, Contains("8 ranks: parallel.tp=2 parallel.pp=2"));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_NE(pairs[i].job, wish);
    if (i > 0) {
      EXPECT_GE(pairs[i].job.grid.ranks(), pairs[i - 1].job.grid.ranks());
    }
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(pairs[i].job, pairs[j].job) << texts[i];
  }
}

}  // namespace
}  // namespace slimpack
