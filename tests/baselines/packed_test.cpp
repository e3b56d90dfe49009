#include "slimpack/baselines/packed.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "tests/baselines/cases.h"
#include "tests/support/packed_plan.h"

namespace slimpack {
namespace {

using testing::members;
using testing::packed_plan;
using testing::tokens;

TEST(PackedPlan, PutsEverySequenceIntoTheFullestPackThatStillHasRoom) {
  // Capacity 10. 7 | 6 | 3 joins 7 (room 3, not 4) | 3 joins 6 | 1 joins 6 + 3 (room 1).
  const SequenceLengths lengths = tokens({3, 7, 6, 3, 1});
  const PackPlan plan = packed_plan(lengths, all_sequences(lengths), Tokens(10));
  EXPECT_EQ(members(plan.forward), (std::vector<std::vector<int>>{{1, 0}, {2, 3, 4}}));
  EXPECT_EQ(plan.backward, plan.forward);
}

TEST(PackedPlan, PacksOnlyTheSequencesOfTheReplica) {
  const SequenceLengths lengths = tokens({3, 100, 6});
  const PackPlan plan = packed_plan(lengths, {SequenceId(0), SequenceId(2)}, Tokens(10));
  EXPECT_EQ(members(plan.forward), (std::vector<std::vector<int>>{{2, 0}}));
}

TEST(PackedPlan, OfNoSequencesIsEmpty) {
  EXPECT_EQ(packed_plan({}, {}, Tokens(10)), PackPlan{});
}

TEST(PackedPlan, RefusesASequenceAboveTheCapacityByName) {
  const SequenceLengths lengths = tokens({10, 11, 3});
  EXPECT_NO_THROW((void)packed_plan(lengths, {SequenceId(0), SequenceId(2)}, Tokens(10)));
  try {
    (void)packed_plan(lengths, all_sequences(lengths), Tokens(10));
    FAIL() << "11 tokens were packed into 10";
  } catch (const InvalidInput& e) {
    EXPECT_STREQ(e.what(),
                 "sequence 1 has 11 tokens, but a pack holds 10; raise the context or cut the "
                 "sequence");
  }
}

/// Packs by the same rule, looking at every pack for every sequence.
std::vector<std::vector<int>> naive(const SequenceLengths& lengths, std::int64_t capacity) {
  std::vector<int> order;
  for (std::size_t i = 0; i < lengths.size(); ++i) order.push_back(static_cast<int>(i));
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  std::vector<std::vector<int>> packs;
  std::vector<std::int64_t> room;
  for (const int id : order) {
    const std::int64_t length = lengths[static_cast<std::size_t>(id)].count();
    std::size_t best = packs.size();
    for (std::size_t p = 0; p < packs.size(); ++p) {
      if (room[p] >= length && (best == packs.size() || room[p] < room[best])) best = p;
    }
    if (best == packs.size()) {
      packs.emplace_back();
      room.push_back(capacity);
    }
    packs[best].push_back(id);
    room[best] -= length;
  }
  return packs;
}

RC_GTEST_PROP(PackedPlan, EqualsTheNaiveSearchAndIsValid, ()) {
  const auto capacity = *rc::gen::inRange<std::int64_t>(1, 60);
  const SequenceLengths lengths =
      tokens(*rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(
          rc::gen::inRange<std::int64_t>(1, capacity + 1))));
  const PackPlan plan = packed_plan(lengths, all_sequences(lengths), Tokens(capacity));
  RC_ASSERT(members(plan.forward) == naive(lengths, capacity));
  const auto errors =
      check_plan(StepPlan{lengths, StageLayout{{0, 1}}, {{all_sequences(lengths), plan}}});
  RC_ASSERT(errors == std::vector<std::string>{});
}

}  // namespace
}  // namespace slimpack
