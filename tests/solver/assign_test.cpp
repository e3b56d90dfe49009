#include "slimpack/solver/assign.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"

namespace slimpack {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A nanosecond a token; a group of 2^k shares it and adds `exchange` a token.
std::vector<PackCost> groups_of(int count, double exchange) {
  std::vector<PackCost> groups;
  for (int k = 0; k < count; ++k)
    groups.push_back({.per_token = 1.0 / (1 << k) + (k == 0 ? 0 : exchange)});
  return groups;
}

SequenceLengths lengths_of(std::initializer_list<std::int64_t> tokens) {
  SequenceLengths lengths;
  for (const std::int64_t t : tokens) lengths.emplace_back(t);
  return lengths;
}

std::vector<SequenceId> ids(std::initializer_list<std::int32_t> values) {
  std::vector<SequenceId> out;
  for (const std::int32_t v : values) out.emplace_back(v);
  return out;
}

/// The input of assign and levelled: work, and the replicas that share it.
struct Case {
  SequenceLengths lengths;
  std::vector<double> speed;
  std::vector<PackCost> groups;

  [[nodiscard]] Assignment assigned(
      double merge_above, const std::optional<milp::SolveLimits>& exact = std::nullopt) const {
    return assign({lengths, speed, groups}, merge_above, exact);
  }
  [[nodiscard]] Assignment levelled(Assignment assignment, double least) const {
    return slimpack::levelled({lengths, speed, groups}, std::move(assignment), least);
  }
};

SequenceLengths random_lengths(Rng& rng) {
  SequenceLengths lengths(rng.below(20));
  for (Tokens& length : lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{4} << rng.below(10))));
  return lengths;
}

Case random_case(Rng& rng) {
  Case c;
  c.lengths = random_lengths(rng);
  c.speed.resize(1 + rng.below(9));
  for (double& speed : c.speed) speed = rng.below(2) == 0 ? 1.0 : 0.5 + rng.uniform();
  const double exchange = 0.2 * rng.uniform();
  for (std::size_t size = 1; size <= c.speed.size(); size *= 2)
    if (size == 1 || rng.below(4) > 0)
      c.groups.push_back({.per_slice = 3 * rng.uniform(),
                          .per_token = 1.0 / static_cast<double>(size) + (size > 1 ? exchange : 0),
                          .per_pair = 0.01 / static_cast<double>(size)});
  return c;
}

double random_threshold(Rng& rng) {
  const double choices[] = {kNever, 1.0, 0.5, 0.1, 0.0};
  return choices[rng.below(5)];
}

/// Fitted, or with any threshold, levelled or not.
Assignment random_assignment(Rng& rng, const Case& c) {
  if (rng.below(4) == 0) return *fitted({c.lengths, c.speed, c.groups}, kNever);
  Assignment assignment = c.assigned(random_threshold(rng));
  return rng.below(2) == 0 ? assignment : c.levelled(std::move(assignment), 0.01);
}

RC_GTEST_PROP(Assign, PutsEverySequenceOnExactlyOneGroup, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const Assignment assignment = random_assignment(rng, c);
  const std::size_t replicas = c.speed.size();
  RC_ASSERT(assignment.own.size() == replicas);
  std::vector<int> times(c.lengths.size(), 0);
  for (const auto& own : assignment.own) {
    RC_ASSERT(std::is_sorted(own.begin(), own.end()));
    for (const SequenceId q : own) ++times[q.index()];
  }
  for (const MergedSequence& m : assignment.merged) {
    ++times[m.sequence.index()];
    const auto count = static_cast<std::size_t>(m.replicas);
    RC_ASSERT(m.replicas == 2 || m.replicas == 4 || m.replicas == 8);
    RC_ASSERT(m.first.index() % count == 0);
    RC_ASSERT(m.first.index() + count <= replicas);
  }
  RC_ASSERT(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
}

RC_GTEST_PROP(Assign, CountsTheLoadOfWhatItAssigned, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const Assignment assignment = random_assignment(rng, c);
  const auto work = [&](SequenceId q, std::size_t k) {
    return c.groups[k]({q, Tokens(0), c.lengths[q.index()]});
  };
  std::vector<double> load(c.speed.size(), 0);
  for (std::size_t r = 0; r < load.size(); ++r)
    for (const SequenceId q : assignment.own[r]) load[r] += work(q, 0) / c.speed[r];
  for (const MergedSequence& m : assignment.merged)
    for (std::int32_t i = 0; i < m.replicas; ++i) {
      const std::size_t r = m.first.index() + static_cast<std::size_t>(i);
      load[r] += work(m.sequence, m.replicas == 2 ? 1 : m.replicas == 4 ? 2 : 3) / c.speed[r];
    }
  for (std::size_t r = 0; r < load.size(); ++r)
    RC_ASSERT(std::abs(assignment.load[r] - load[r]) <= 1e-9 * (1 + load[r]));
}

RC_GTEST_PROP(Assign, MergesOnTheSmallestGroupBelowTheThreshold, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const double merge_above = random_threshold(rng);
  const Assignment assignment = c.assigned(merge_above);
  const auto load = [&](std::size_t q, std::size_t k) {
    return c.groups[k]({SequenceId(q), Tokens(0), c.lengths[q]});
  };
  const auto lightest = [&](std::size_t q) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < c.groups.size(); ++k)
      if (load(q, k) < load(q, best)) best = k;
    return best;
  };
  double work = 0, longest = 0;
  for (std::size_t q = 0; q < c.lengths.size(); ++q) {
    work += load(q, 0);
    longest = std::max(longest, load(q, lightest(q)));
  }
  const double least =
      std::max(work / std::accumulate(c.speed.begin(), c.speed.end(), 0.0), longest);
  std::vector<std::int32_t> group(c.lengths.size(), 1);
  for (const MergedSequence& m : assignment.merged) group[m.sequence.index()] = m.replicas;
  for (std::size_t q = 0; q < c.lengths.size(); ++q) {
    std::size_t expected = 0;
    while (expected < c.groups.size() && load(q, expected) > merge_above * least) ++expected;
    if (expected == c.groups.size()) expected = lightest(q);
    RC_ASSERT(group[q] == std::int32_t{1} << expected);
  }
  // Largest groups first, then longest sequences.
  for (std::size_t i = 1; i < assignment.merged.size(); ++i) {
    const MergedSequence& a = assignment.merged[i - 1];
    const MergedSequence& b = assignment.merged[i];
    RC_ASSERT(a.replicas >= b.replicas);
    if (a.replicas == b.replicas)
      RC_ASSERT(c.lengths[a.sequence.index()] >= c.lengths[b.sequence.index()]);
  }
}

TEST(Assign, BalancesExactlyWhereAskedTo) {
  // 26 tokens on two replicas: no move and no exchange of two helps 8 + 4 + 2 against 5 + 5 + 2,
  // but 8 + 5 and 5 + 4 + 2 + 2 are equal.
  const Case c{lengths_of({5, 2, 2, 4, 5, 8}), {1, 1}, groups_of(1, 0)};
  const Assignment fast = c.assigned(kNever);
  EXPECT_EQ(*std::max_element(fast.load.begin(), fast.load.end()), 14);
  EXPECT_EQ(c.assigned(kNever, milp::SolveLimits{}).load, (std::vector<double>{13, 13}));
}

TEST(Assign, SpreadsALongSequenceOverTheReplicasThatItWouldHoldUp) {
  // 160 + 4 · 10 tokens on four replicas, 50 on average. Alone the long one would take 160, on two
  // replicas 160 · (1/2 + 1/16) = 90, on four 160 · (1/4 + 1/16) = 50, which is just not above it.
  const Case c{lengths_of({10, 160, 10, 10, 10}), {1, 1, 1, 1}, groups_of(3, 1.0 / 16)};
  const Assignment apart = c.assigned(kNever);
  EXPECT_TRUE(apart.merged.empty());
  EXPECT_EQ(*std::max_element(apart.load.begin(), apart.load.end()), 160);
  const Assignment merged = c.assigned(1.0);
  EXPECT_EQ(merged.merged, std::vector{(MergedSequence{SequenceId(1), ReplicaId(0), 4})});
  EXPECT_EQ(merged.load, (std::vector<double>{60, 60, 60, 60}));
}

TEST(Assign, LeavesReplicasOutThatALongSequenceWouldGainNothingFrom) {
  // The sequence of 100 tokens takes 100 alone, 100 · (1/2 + 0.4) = 90 on two replicas, 65 on four
  // at 0.4 more a token; at 0.1 more on those two 60. So two replicas take it where nothing is
  // asked for, and the other two have the short ones. The least load is 60: the mean is 27.5.
  Case c{lengths_of({5, 100, 5}), {1, 1, 1, 1}, groups_of(3, 0.4)};
  c.groups[1].per_token = 0.6;
  for (const double merge_above : {0.0, 1.0}) {
    const Assignment assignment = c.assigned(merge_above);
    ASSERT_FALSE(assignment.merged.empty());
    EXPECT_EQ(assignment.merged.front(), (MergedSequence{SequenceId(1), ReplicaId(0), 2}));
  }
  EXPECT_EQ(c.assigned(1.0).load, (std::vector<double>{60, 60, 5, 5}));
  EXPECT_TRUE(c.assigned(1.7).merged.empty());  // 102
}

TEST(Assign, PutsMergedSequencesOnTheLightestGroup) {
  // Two sequences of 80 tokens above the mean of 44 + … go to a pair each: 40 on each of its
  // replicas; the short ones fill up.
  const Case c{lengths_of({80, 8, 80, 8}), {1, 1, 1, 1}, groups_of(2, 0)};
  const Assignment assignment = c.assigned(1.0);
  EXPECT_EQ(assignment.merged, (std::vector{MergedSequence{SequenceId(0), ReplicaId(0), 2},
                                            MergedSequence{SequenceId(2), ReplicaId(2), 2}}));
  EXPECT_EQ(*std::max_element(assignment.load.begin(), assignment.load.end()), 48);
}

TEST(Assign, LevelsFewEqualSequences) {
  // Five of 40 tokens on two replicas: 120 and 80 whole. One of the three on both replicas adds 20
  // to each: 100 and 100; at 0.2 more a token 80 + 28 and 80 + 28.
  const SequenceLengths lengths = lengths_of({40, 40, 40, 40, 40});
  for (const auto& [exchange, load] : {std::pair(0.0, 100.0), std::pair(0.2, 108.0)}) {
    const Case c{lengths, {1, 1}, groups_of(2, exchange)};
    const Assignment whole = c.assigned(kNever);
    EXPECT_EQ(*std::max_element(whole.load.begin(), whole.load.end()), 120);
    const Assignment level = c.levelled(whole, 0.01);
    EXPECT_EQ(level.merged.size(), 1U);
    for (const double of_replica : level.load) EXPECT_NEAR(of_replica, load, 1e-9);
    // A merge must gain as much as is asked for: of 120 it leaves 100, or 108.
    EXPECT_EQ(c.levelled(whole, 0.17), whole);
  }
}

TEST(Assign, LevelsWithAsManySequencesAsItTakes) {
  // 188 + 21 and 188 + 6. The 21 on both replicas, 10.5 + 0.21 each, leaves the other heavier:
  // 198.71 and 204.71. The 6 on both, 3.06 each, makes them equal.
  const Case c{lengths_of({188, 188, 21, 6}), {1, 1}, groups_of(2, 0.01)};
  const Assignment level = c.levelled(c.assigned(kNever), 0.01);
  EXPECT_EQ(level.merged, (std::vector{MergedSequence{SequenceId(2), ReplicaId(0), 2},
                                       MergedSequence{SequenceId(3), ReplicaId(0), 2}}));
  for (const double load : level.load) EXPECT_NEAR(load, 201.77, 1e-9);
}

RC_GTEST_PROP(Assign, LevellingNeverMakesTheHeaviestReplicaHeavier, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const auto largest = [](const Assignment& a) {
    return *std::max_element(a.load.begin(), a.load.end());
  };
  const Assignment whole = c.assigned(kNever), level = c.levelled(whole, 0.01);
  RC_ASSERT(largest(level) <= largest(whole) * (1 + 1e-12));
  RC_ASSERT(level == whole || level.merged.size() > whole.merged.size());
}

TEST(Assign, LeavesReplicasWithoutWorkWhenThereAreMoreOfThemThanSequences) {
  const Case c{lengths_of({5}), {1, 1, 1}, groups_of(1, 0)};
  const Assignment assignment = c.assigned(1.0);
  EXPECT_EQ(assignment.own, (std::vector{ids({0}), ids({}), ids({})}));
  EXPECT_EQ(assignment.load, (std::vector<double>{5, 0, 0}));
}

TEST(Assign, GivesFasterReplicasMore) {
  const Case c{lengths_of({4, 4, 4, 4, 4}), {1, 4}, groups_of(1, 0)};
  const Assignment assignment = c.assigned(kNever);
  EXPECT_EQ(assignment.own[0].size(), 1U);
  EXPECT_EQ(assignment.load, (std::vector<double>{4, 4}));
}

TEST(Fitted, SharesEqualSequencesOutToGroupsOfSeveralSizes) {
  // 20 of 100 on 16 replicas; in groups of 2, 4, 8 and 16 each replica takes 52, 30, 20 and 15.
  // One size for all: two on a replica are 200, three on a pair 156, five on four 150, ten on eight
  // 200, all on all 300. 16 alone and a further one on each four are 130.
  Case c;
  c.lengths.assign(20, Tokens(100));
  c.speed.assign(16, 1.0);
  for (const double load : {100.0, 52.0, 30.0, 20.0, 15.0})
    c.groups.push_back({.per_token = load / 100});
  const Assignment assignment = *fitted({c.lengths, c.speed, c.groups}, kNever);
  EXPECT_EQ(fitted({c.lengths, c.speed, c.groups}, 130.1), assignment);
  EXPECT_EQ(fitted({c.lengths, c.speed, c.groups}, 129.9), std::nullopt);
  for (const double load : assignment.load) EXPECT_NEAR(load, 130, 1e-9);
  EXPECT_EQ(assignment.merged.size(), 4U);
  for (const double above : {kNever, 0.9, 0.5, 0.3, 0.2, 0.0})
    EXPECT_GE(std::ranges::max(c.assigned(above).load), 150 - 1e-9);
}

TEST(Fitted, MergesNothingWhereWholeSequencesFillTheReplicas) {
  Case c{lengths_of({5, 5, 4, 3, 3}), {1, 1}, groups_of(2, 0.1)};
  const Assignment assignment = *fitted({c.lengths, c.speed, c.groups}, kNever);
  EXPECT_TRUE(assignment.merged.empty());
  EXPECT_EQ(assignment.load, (std::vector<double>{10, 10}));
}

}  // namespace
}  // namespace slimpack
