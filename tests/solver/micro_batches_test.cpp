#include "slimpack/solver/micro_batches.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace slimpack {
namespace {

std::vector<Tokens> tokens_of(const std::vector<std::int64_t>& counts) {
  std::vector<Tokens> tokens;
  for (const std::int64_t count : counts) tokens.emplace_back(count);
  return tokens;
}

std::vector<double> squares(const std::vector<std::int64_t>& counts) {
  std::vector<double> work;
  for (const std::int64_t count : counts) work.push_back(static_cast<double>(count * count));
  return work;
}

TEST(MicroBatches, BalanceWorkAndNotTokens) {
  // Squares: 64 against 16 + 16 + 16 + 16. By tokens it would be 8 + 4 against 4 + 4 + 4.
  const std::vector<std::int64_t> counts{4, 8, 4, 4, 4};
  const auto batches =
      balanced_micro_batches(squares(counts), tokens_of(counts), {2, 1, Tokens(16)});
  ASSERT_TRUE(batches);
  const std::vector<std::vector<std::vector<std::int32_t>>> expected{{{1}}, {{0, 2, 3, 4}}};
  EXPECT_EQ(batches->of_rank, expected);
  EXPECT_EQ(batches->imbalance(), 1);
}

TEST(MicroBatches, SwapWhereMovesDoNotHelp) {
  // Longest first gives 7 + 4 and 6 + 5 … then 4 to either: 7 4 4 | 6 5 = 15 | 11. The best is
  // 7 6 | 5 4 4 = 13 | 13, two exchanges away.
  const std::vector<std::int64_t> counts{7, 6, 5, 4, 4};
  const std::vector<double> work(counts.begin(), counts.end());
  const auto batches = balanced_micro_batches(work, tokens_of(counts), {2, 1, Tokens(26)});
  ASSERT_TRUE(batches);
  EXPECT_EQ(batches->imbalance(), 1);
}

TEST(MicroBatches, KeepTheCapAlthoughBalanceSuffers) {
  const std::vector<std::int64_t> counts{8, 4, 4, 4, 4};
  const auto batches =
      balanced_micro_batches(squares(counts), tokens_of(counts), {2, 1, Tokens(12)});
  ASSERT_TRUE(batches);  // 64 + 16 against 48: the cap forbids 64 against 64
  EXPECT_EQ(batches->work, (std::vector<double>{80, 48}));
}

TEST(MicroBatches, FillUpWhereEqualLoadsLeaveNoRoom) {
  // Most work first gives 6 + 4 and 5 + 4, then no room for 3 of 11: best fit finds 6 + 5 and 4 + 4
  // + 3.
  const std::vector<std::int64_t> counts{6, 5, 4, 4, 3};
  const auto batches =
      balanced_micro_batches(squares(counts), tokens_of(counts), {1, 2, Tokens(11)});
  ASSERT_TRUE(batches);
  const std::vector<std::vector<std::vector<std::int32_t>>> expected{{{0, 1}, {2, 3, 4}}};
  EXPECT_EQ(batches->of_rank, expected);
}

TEST(MicroBatches, AreNoneWhereASequenceHasNoRoom) {
  EXPECT_FALSE(balanced_micro_batches(std::vector<double>{1, 1, 1}, tokens_of({4, 4, 4}),
                                      {1, 2, Tokens(7)}));
  EXPECT_FALSE(balanced_micro_batches(std::vector<double>{1}, tokens_of({8}), {4, 2, Tokens(7)}));
}

TEST(MicroBatches, OrderThoseOfARankByFallingWork) {
  const std::vector<std::int64_t> counts{2, 5, 3};
  const auto batches =
      balanced_micro_batches(squares(counts), tokens_of(counts), {1, 3, Tokens(5)});
  ASSERT_TRUE(batches);
  const std::vector<std::vector<std::vector<std::int32_t>>> expected{{{1}, {2}, {0}}};
  EXPECT_EQ(batches->of_rank, expected);
}

/// The smallest largest load of any assignment that keeps the cap, by trying all; < 0: there is
/// none.
double best_of_all(const std::vector<double>& work, const std::vector<Tokens>& tokens,
                   const MicroBatchRule& rule) {
  const std::size_t bins = static_cast<std::size_t>(rule.ranks * rule.per_rank);
  std::size_t assignments = 1;
  for (std::size_t s = 0; s < work.size(); ++s) assignments *= bins;
  double best = -1;
  for (std::size_t code = 0; code < assignments; ++code) {
    std::vector<double> load(static_cast<std::size_t>(rule.ranks));
    std::vector<Tokens> held(bins);
    std::size_t rest = code;
    for (std::size_t s = 0; s < work.size(); ++s, rest /= bins) {
      load[rest % bins / static_cast<std::size_t>(rule.per_rank)] += work[s];
      held[rest % bins] += tokens[s];
    }
    const double largest = *std::ranges::max_element(load);
    if (*std::ranges::max_element(held) <= rule.cap && (best < 0 || largest < best)) best = largest;
  }
  return best;
}

RC_GTEST_PROP(MicroBatches, HoldEverySequenceOnceUnderTheCapNearTheBest, ()) {
  const auto counts = *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange(1, 7),
                                                                     rc::gen::inRange(1, 30));
  const MicroBatchRule rule{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 3),
                            Tokens(*rc::gen::inRange(20, 90))};
  const std::vector<Tokens> tokens = tokens_of(counts);
  const std::vector<double> work = squares(counts);
  const auto batches = balanced_micro_batches(work, tokens, rule);
  const double best = best_of_all(work, tokens, rule);
  if (!batches) {
    // Longest first is no exact packing: it may miss one that is tight.
    Tokens all;
    for (const Tokens count : tokens) all += count;
    RC_ASSERT(best < 0 || all * 2 > rule.cap * (rule.ranks * rule.per_rank));
    return;
  }
  std::multiset<std::int32_t> seen;
  double largest = 0;
  RC_ASSERT(batches->of_rank.size() == static_cast<std::size_t>(rule.ranks));
  for (const auto& of_rank : batches->of_rank) {
    double load = 0;
    RC_ASSERT(of_rank.size() == static_cast<std::size_t>(rule.per_rank));
    for (const auto& batch : of_rank) {
      Tokens held;
      for (const std::int32_t s : batch) {
        seen.insert(s);
        held += tokens[static_cast<std::size_t>(s)];
        load += work[static_cast<std::size_t>(s)];
      }
      RC_ASSERT(held <= rule.cap);
      RC_ASSERT(!batch.empty() ||
                counts.size() < static_cast<std::size_t>(rule.ranks * rule.per_rank));
    }
    largest = std::max(largest, load);
  }
  RC_ASSERT(seen.size() == counts.size() &&
            std::set(seen.begin(), seen.end()).size() == counts.size());
  // Graham's bound for longest-processing-time-first holds without a binding cap.
  Tokens all;
  for (const Tokens count : tokens) all += count;
  if (all <= rule.cap && counts.size() >= static_cast<std::size_t>(rule.ranks * rule.per_rank) &&
      rule.per_rank == 1)
    RC_ASSERT(largest <= best * 4 / 3 + 1e-9);
  RC_ASSERT(largest >= best - 1e-9);
}

/// How many bins best fit decreasing takes.
std::size_t best_fit_bins(std::vector<std::int64_t> counts, std::int64_t cap) {
  std::ranges::sort(counts, std::greater<>());
  std::multiset<std::int64_t> rooms;
  for (const std::int64_t count : counts) {
    auto room = rooms.lower_bound(count);
    if (room == rooms.end()) room = rooms.insert(cap);
    rooms.insert(*room - count);
    rooms.erase(room);
  }
  return rooms.size();
}

RC_GTEST_PROP(MicroBatches, AreFoundWhereBestFitFindsRoom, ()) {
  const auto cap = *rc::gen::inRange<std::int64_t>(20, 60);
  const auto counts =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 21));
  RC_PRE(!counts.empty());
  const std::size_t bins = best_fit_bins(counts, cap);
  for (const std::size_t ranks : {std::size_t{1}, std::size_t{3}}) {
    const auto per_rank = static_cast<std::int32_t>((bins + ranks - 1) / ranks);
    RC_ASSERT(balanced_micro_batches(squares(counts), tokens_of(counts),
                                     {static_cast<std::int32_t>(ranks), per_rank, Tokens(cap)})
                  .has_value());
  }
}

}  // namespace
}  // namespace slimpack
