#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "slimpack/baselines/sharing_rounds.h"
#include "tests/baselines/cases.h"

namespace slimpack {
namespace {

using testing::ids;
using testing::input_of;
using testing::job_of;
using testing::tokens;

TEST(AllottedReplicas, MakeTheLongestGroupShort) {
  // Four replicas, least 1 each: 8 alone would be the longest; on two replicas it takes 5. The one
  // that is left makes the group of 6 no faster than 4, so that the longest is 5.
  EXPECT_EQ(allotted_replicas({{8, 5, 3}, {6, 4, 3}, {2, 1, 1}}, {1, 1, 1}, 4),
            (std::vector<std::int32_t>{2, 1, 1}));
  EXPECT_EQ(allotted_replicas({{8, 5, 3}, {6, 4, 3}, {2, 1, 1}}, {1, 1, 1}, 8),
            (std::vector<std::int32_t>{4, 2, 2}));
  // A group that more replicas make slower gets none of them.
  EXPECT_EQ(allotted_replicas({{8, 9}, {6, 7}}, {2, 1}, 8), (std::vector<std::int32_t>{2, 1}));
}

double makespan(const std::vector<GroupTimes>& times, const std::vector<std::size_t>& doublings) {
  double most = 0;
  for (std::size_t i = 0; i < times.size(); ++i) most = std::max(most, times[i][doublings[i]]);
  return most;
}

// FCP finds the least makespan by dynamic programming over groups and replicas; here all are tried.
RC_GTEST_PROP(AllottedReplicas, HaveTheLeastMakespan, ()) {
  const std::size_t groups = *rc::gen::inRange<std::size_t>(1, 5);
  std::vector<GroupTimes> times;
  std::vector<std::int32_t> least;
  for (std::size_t i = 0; i < groups; ++i) {
    least.push_back(1 << *rc::gen::inRange(0, 3));
    times.emplace_back();
    for (std::int32_t count = least.back(); count <= 16; count *= 2)
      times.back().push_back(*rc::gen::inRange(1, 50));
  }
  const std::int32_t replicas =
      std::accumulate(least.begin(), least.end(), *rc::gen::inRange(0, 20));
  const auto counts = allotted_replicas(times, least, replicas);
  RC_ASSERT(std::accumulate(counts.begin(), counts.end(), 0) <= replicas);
  std::vector<std::size_t> doublings(groups);
  for (std::size_t i = 0; i < groups; ++i)
    while (least[i] << doublings[i] < counts[i]) ++doublings[i];
  const double found = makespan(times, doublings);
  double best = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> tried(groups);
  const std::function<void(std::size_t, std::int32_t)> each = [&](std::size_t i,
                                                                  std::int32_t free) {
    if (i == groups) {
      best = std::min(best, makespan(times, tried));
      return;
    }
    for (tried[i] = 0; tried[i] < times[i].size() && least[i] << tried[i] <= free; ++tried[i])
      each(i + 1, free - (least[i] << tried[i]));
  };
  each(0, replicas);
  RC_ASSERT(found == best);
}

TEST(FlexibleRounds, PackByTokensAndGiveReplicasByTime) {
  // Share 10, 4 replicas. 18 tokens need two replicas and have room for 2. 9 has a replica with
  // room for 1, 4 and 4 have one. 2 fits the first group and the last; the first is older. All
  // three fit one round: 2 + 1 + 1 replicas, of equally many the group with more work first.
  const SequenceLengths lengths = tokens({4, 18, 9, 4, 1, 2});
  const Costs cost = testing::round_cost();
  const Job job = job_of(testing::one_layer_each(2), 4, Tokens(40));
  EXPECT_EQ(flexible_rounds(input_of(job, lengths, cost), {Tokens(10), 4}),
            (std::vector<SharingRound>{
                SharingRound{{0, 2, ids({1, 5})}, {2, 1, ids({2, 4})}, {3, 1, ids({0, 3})}}}));
}

RC_GTEST_PROP(FlexibleRounds, HoldEverySequenceOnceInGroupsWithRoomForIt, ()) {
  const auto lengths = tokens(
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 161)));
  const auto replicas = *rc::gen::inRange<std::int32_t>(1, 13);
  const Costs cost = testing::round_cost();
  const Job job = job_of(testing::one_layer_each(2), replicas, Tokens(160));
  const BaselineInput input = input_of(job, lengths, cost);
  const std::int32_t largest = largest_group(replicas, 4);
  const ContextSharing sharing{Tokens((160 + largest - 1) / largest), largest};
  std::vector<int> seen(lengths.size(), 0);
  for (const SharingRound& round : flexible_rounds(input, sharing)) {
    std::int32_t next = 0;
    for (const SharingGroup& group : round) {
      RC_ASSERT(group.first == next && group.first % group.count == 0);
      RC_ASSERT(group.count <= largest && !group.sequences.empty());
      next += group.count;
      Tokens held;
      for (const SequenceId id : group.sequences) {
        ++seen[id.index()];
        held += lengths[id.index()];
      }
      RC_ASSERT(held <= sharing.per_replica * group.count);
    }
    RC_ASSERT(next <= replicas);
  }
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

}  // namespace
}  // namespace slimpack
