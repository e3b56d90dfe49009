#include "slimpack/solver/unit_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/solver/random_cut.h"

namespace slimpack {
namespace {

using testing::JobCut;
using testing::random_job;
using testing::RandomJob;

RC_GTEST_PROP(UnitsOf, CoverAllReplicasAndEverySequenceOfThem, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = random_job(rng);
  const Assignment assignment = testing::random_assignment(rng, job);
  const std::vector<Unit> units = units_of(job.lengths, assignment);
  std::vector<int> times(static_cast<std::size_t>(job.replicas), 0);
  for (const Unit& unit : units) {
    double load = 0;
    for (const ReplicaShare& share : unit.replicas) {
      const std::size_t r = share.replica.index();
      ++times[r];
      load = std::max(load, assignment.load[r]);
      // The replica has its own sequences and the merged ones that it takes part in, with their
      // lengths.
      std::vector<SequenceId> expected = assignment.own[r];
      for (const MergedSequence& m : assignment.merged)
        if (r / static_cast<std::size_t>(m.replicas) ==
            m.first.index() / static_cast<std::size_t>(m.replicas))
          expected.push_back(m.sequence);
      std::sort(expected.begin(), expected.end());
      RC_ASSERT(share.sequences == expected);
      for (std::size_t q = 0; q < share.sequences.size(); ++q)
        RC_ASSERT(share.lengths[q] == job.lengths[share.sequences[q].index()]);
    }
    RC_ASSERT(unit.load == load);
  }
  RC_ASSERT(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
  RC_ASSERT(std::is_sorted(units.begin(), units.end(),
                           [](const Unit& a, const Unit& b) { return a.load > b.load; }));
}

RC_GTEST_PROP(UnitsOf, ReplicasAreInOneUnitExactlyIfTheyShareSequencesThroughOthers,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = random_job(rng);
  const Assignment assignment = testing::random_assignment(rng, job);
  // Label propagation.
  std::vector<std::size_t> label(static_cast<std::size_t>(job.replicas));
  for (std::size_t r = 0; r < label.size(); ++r) label[r] = r;
  for (bool changed = true; changed;) {
    changed = false;
    for (const MergedSequence& m : assignment.merged)
      for (std::int32_t i = 1; i < m.replicas; ++i) {
        std::size_t& a = label[m.first.index() + static_cast<std::size_t>(i) - 1];
        std::size_t& b = label[m.first.index() + static_cast<std::size_t>(i)];
        changed |= a != b;
        a = b = std::min(a, b);
      }
  }
  std::vector<std::size_t> unit_of(label.size());
  const std::vector<Unit> units = units_of(job.lengths, assignment);
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const ReplicaShare& share : units[u].replicas) unit_of[share.replica.index()] = u;
  for (std::size_t a = 0; a < label.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      RC_ASSERT((label[a] == label[b]) == (unit_of[a] == unit_of[b]));
}

RC_GTEST_PROP(UnitsOf, SegmentsAreTheGroupsOfAReplicaLargestFirst, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = random_job(rng);
  const Assignment assignment = testing::random_assignment(rng, job);
  for (const Unit& unit : units_of(job.lengths, assignment))
    for (const ReplicaShare& share : unit.replicas) {
      RC_ASSERT(!share.segments.empty() && share.segments.back().replicas == 1);
      std::vector<SequenceId> own;
      for (const SequenceId q : share.segments.back().sequences)
        own.push_back(share.sequences[q.index()]);
      std::vector<SequenceId> longest_first = assignment.own[share.replica.index()];
      std::ranges::sort(longest_first, {}, [&](SequenceId q) {
        return std::pair(-job.lengths[q.index()].count(), q);
      });
      RC_ASSERT(own == longest_first);
      std::size_t count = 0;
      for (std::size_t i = 0; i < share.segments.size(); ++i) {
        count += share.segments[i].sequences.size();
        if (i > 0) RC_ASSERT(share.segments[i].replicas < share.segments[i - 1].replicas);
      }
      RC_ASSERT(count == share.sequences.size());
    }
}

RC_GTEST_PROP(CutUnit, UnitsPutTogetherAreACorrectStep, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = random_job(rng);
  const JobCut cut = testing::random_cut(rng, job);
  RC_ASSERT(check_plan(cut.plan) == std::vector<std::string>{});
}

RC_GTEST_PROP(CutUnit, MergedPacksHaveTheSameIndexOnAllTheirReplicas, (std::uint64_t seed)) {
  Rng rng(seed);
  const RandomJob job = random_job(rng);
  const JobCut cut = testing::random_cut(rng, job);
  for (std::size_t r = 0; r < cut.plan.replicas.size(); ++r)
    for (const Pass pass : kWholePasses) {
      const auto packs_of = [&](std::size_t replica) -> const std::vector<MicroPack>& {
        return cut.plan.replicas[replica].packs.of(pass);
      };
      for (std::size_t p = 0; p < packs_of(r).size(); ++p) {
        const MicroPack& pack = packs_of(r)[p];
        const auto count = static_cast<std::size_t>(pack.replicas);
        for (std::size_t m = r / count * count; m < (r / count + 1) * count; ++m)
          RC_ASSERT(p < packs_of(m).size() && packs_of(m)[p] == pack);
      }
    }
}

TEST(CutUnit, GivesMergedSequencesTheirShareOfThePacks) {
  // Replica 0 has 96 tokens of a merged sequence and 32 of its own, replica 1 only the merged ones:
  // of 8 packs the merged sequence gets 96/128 · 8 = 6 on both, replica 0 runs its own in two.
  Assignment assignment;
  assignment.own = {{SequenceId(1)}, {}};
  assignment.merged = {{SequenceId(0), ReplicaId(0), 2}};
  assignment.load = {128, 96};
  const std::vector<Unit> units = units_of({Tokens(192), Tokens(32)}, assignment);
  ASSERT_EQ(units.size(), 1U);
  const PackCost alone{.per_token = 1};
  const PackCost shared{.per_token = 0.5};
  UnitCutOptions options;
  options.fluid.packs = 8;
  options.fluid.granularity = Tokens(16);
  const auto packs = cut_unit(units[0], {{alone, shared}, {alone, shared}}, options);
  ASSERT_EQ(packs.size(), 2U);
  EXPECT_EQ(packs[0].forward.size(), 8U);
  EXPECT_EQ(packs[1].forward.size(), 6U);
  for (std::size_t p = 0; p < 6; ++p) {
    EXPECT_EQ(packs[0].forward[p].tokens(), Tokens(32));
    EXPECT_EQ(packs[0].forward[p].replicas, 2);
    // Both have it as the first of their own ids.
    EXPECT_EQ(packs[1].forward[p], packs[0].forward[p]);
  }
  EXPECT_EQ(packs[0].forward[7].tokens(), Tokens(16));
  EXPECT_EQ(packs[0].forward[7].replicas, 1);
}

TEST(CutUnit, OfAReplicaWithoutSequencesIsEmpty) {
  Assignment assignment;
  assignment.own = {{}, {SequenceId(0)}};
  assignment.load = {0, 8};
  const std::vector<Unit> units = units_of({Tokens(8)}, assignment);
  ASSERT_EQ(units.size(), 2U);
  const PackCost cost{.per_token = 1};
  EXPECT_EQ(cut_unit(units[0], {{cost}, {cost}}, {})[0].forward.size(), 1U);
  EXPECT_EQ(cut_unit(units[1], {{cost}, {cost}}, {})[0], PackPlan{});
}

}  // namespace
}  // namespace slimpack
