#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::job_of;
using testing::made_by;
using testing::members;
using testing::tokens;
using Packs = std::vector<std::vector<int>>;

Packs pack(const SequenceLengths& lengths, std::int64_t capacity, Packing packing) {
  Packs out;
  for (const auto& ids :
       pack_sequences(lengths, all_sequences(lengths), Tokens(capacity), packing)) {
    out.emplace_back();
    for (const SequenceId id : ids) out.back().push_back(id.value());
  }
  return out;
}

TEST(FirstFit, PutsEverySequenceIntoTheOldestPackWithRoom) {
  // Capacity 10: 7 | 6 | 3 joins 7 | the other 3 joins 6, the first pack is full.
  EXPECT_EQ(pack(tokens({6, 7, 3, 3}), 10, Packing::kFirstFit), (Packs{{1, 2}, {0, 3}}));
  // 8 | 7 | 7 | 3 joins the first 7 | 2 joins 8, where best fit does the same.
  EXPECT_EQ(pack(tokens({8, 7, 7, 3, 2}), 10, Packing::kFirstFit), (Packs{{0, 4}, {1, 3}, {2}}));
  // Capacity 11: 7 | 5 5 | 2 joins 7. Rooms are 2 and 1: the 1 joins the oldest pack, where best
  // fit gives it to the fullest.
  EXPECT_EQ(pack(tokens({7, 5, 5, 2, 1}), 11, Packing::kFirstFit), (Packs{{0, 3, 4}, {1, 2}}));
  EXPECT_EQ(pack(tokens({7, 5, 5, 2, 1}), 11, Packing::kBestFit), (Packs{{0, 3}, {1, 2, 4}}));
}

RC_GTEST_PROP(FirstFit, EqualsTheNaiveSearch, ()) {
  const auto capacity = *rc::gen::inRange<std::int64_t>(1, 60);
  const SequenceLengths lengths = tokens(*rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(1, capacity + 1)));
  std::vector<int> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  Packs naive;
  std::vector<std::int64_t> room;
  for (const int id : order) {
    const std::int64_t length = lengths[static_cast<std::size_t>(id)].count();
    std::size_t p = 0;
    while (p < room.size() && room[p] < length) ++p;
    if (p == room.size()) {
      naive.emplace_back();
      room.push_back(capacity);
    }
    naive[p].push_back(id);
    room[p] -= length;
  }
  RC_ASSERT(pack(lengths, capacity, Packing::kFirstFit) == naive);
}

TEST(Concatenated, KeepsTheOrderAndOnlyLooksAtTheLastPack) {
  // Capacity 10: 4 5 | 6 3 (9, the next 4 does not fit) | 4 1.
  EXPECT_EQ(pack(tokens({4, 5, 6, 3, 4, 1}), 10, Packing::kConcatenated),
            (Packs{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(FixedPacking, DealsPacksToTheReplicasInTurn) {
  const SequenceLengths lengths = tokens({10, 9, 8, 7, 6});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made = made_by("concatenated", job_of(layout, 2, Tokens(10)), lengths, cost);
  EXPECT_EQ(members(made.plan.replicas[0].packs.forward), (Packs{{0}, {2}, {4}}));
  EXPECT_EQ(members(made.plan.replicas[1].packs.forward), (Packs{{1}, {3}}));
  EXPECT_EQ(made.discipline, Discipline::kOneFOneB);
}

TEST(Balanced, PutsLightMicroBatchesAtBothEnds) {
  // Five micro-batches of one sequence each (context 50, every two exceed it): costs fall with
  // length, so the order is … 4th 2nd heaviest-first at even places reversed: 30, 40, 50, 45, 35.
  const SequenceLengths lengths = tokens({50, 45, 40, 35, 30});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made = made_by("balanced", job_of(layout, 1, Tokens(50)), lengths, cost);
  EXPECT_EQ(members(made.plan.replicas[0].packs.forward), (Packs{{4}, {2}, {0}, {1}, {3}}));
}

RC_GTEST_PROP(Balanced, HasTheFewestMicroBatchesThatFitAsManyOnEveryReplica, ()) {
  const SequenceLengths lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 40))));
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const Tokens context(60);
  const auto replicas = *rc::gen::inRange<std::int32_t>(1, 4);
  const BaselinePlan made = made_by("balanced", job_of(layout, replicas, context), lengths, cost);
  const std::vector<std::int64_t> costs =
      sequence_costs(testing::input_of(job_of(layout, replicas, context), lengths, cost));
  std::size_t count = 0;
  for (const ReplicaPlan& replica : made.plan.replicas)
    count = std::max(count, replica.packs.forward.size());
  // One micro-batch less: some replica's Karmarkar–Karp partition exceeds the context, or its
  // tokens do not fit into as many.
  bool fits = count > 1;
  for (const ReplicaPlan& replica : made.plan.replicas) {
    RC_ASSERT(replica.packs.forward.size() == std::min(count, replica.sequences.size()));
    for (const MicroPack& pack : replica.packs.forward) RC_ASSERT(pack.tokens() <= context);
    if (!fits || replica.sequences.empty()) continue;
    std::vector<std::int64_t> own;
    for (const SequenceId id : replica.sequences) own.push_back(costs[id.index()]);
    for (const auto& part : karmarkar_karp(own, std::min(count - 1, own.size()))) {
      Tokens sum;
      for (const std::size_t i : part) sum += lengths[replica.sequences[i].index()];
      fits &= sum <= context;
    }
  }
  RC_ASSERT(!fits);
}

TEST(BaselinePlan, RefusesWhatMakesNoSenseByNameAndRule) {
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const SequenceLengths lengths = tokens({5, 11});
  const SequenceLengths empty_one = tokens({5, 0});
  for (const Baseline& baseline : baselines()) {
    const auto plan = [&](const SequenceLengths& step, std::int32_t replicas,
                          std::int64_t context) {
      return [&, replicas, context] {
        (void)baseline_plan(
            baseline, testing::input_of(job_of(layout, replicas, Tokens(context)), step, cost));
      };
    };
    expect_invalid_input(plan(lengths, 1, 10),
                         {"sequence 1 has 11 tokens", "a pack holds 10", "raise the context"});
    expect_invalid_input(plan(empty_one, 1, 10), {"sequence 1 has 0 tokens", "the least is 1"});
    expect_invalid_input(plan(lengths, 0, 20), {"0 replicas", "the least is 1"});
    expect_invalid_input(plan(lengths, 1, 0), {"context is 0 tokens", "the least is 1"});
  }
}

TEST(BaselineNamed, FindsEveryNameOfTheTableAndSuggestsForOthers) {
  for (const Baseline& baseline : baselines()) {
    EXPECT_EQ(&baseline_named(baseline.name), &baseline);
    EXPECT_FALSE(baseline.about.empty());
  }
  expect_invalid_input([] { (void)baseline_named("dynapip"); },
                       {"\"dynapip\" is no baseline", "dynapipe"});
}

}  // namespace
}  // namespace slimpack
