#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/plan/plan.h"
#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

using testing::random_plan;

Slice slice(std::int32_t sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

/// Sequence 0 of 10 tokens in two slices, sequence 1 of 4 tokens in one.
StepPlan small_plan() {
  StepPlan plan;
  plan.lengths = {Tokens(10), Tokens(4)};
  plan.layout.layer_begin = {0, 2, 4};
  plan.replicas.push_back({{SequenceId(0), SequenceId(1)},
                           {{{{slice(0, 0, 6)}}, {{slice(0, 6, 10), slice(1, 0, 4)}}},
                            {{{slice(1, 0, 4), slice(0, 7, 10)}}, {{slice(0, 0, 7)}}}}});
  return plan;
}

std::vector<MicroPack>& packs_of(StepPlan& plan, Pass pass) {
  return plan.replicas.front().packs.of(pass);
}

bool reports(const StepPlan& plan, const std::string& words) {
  for (const std::string& line : check_plan(plan, 100))
    if (line.find(words) != std::string::npos) return true;
  return false;
}

TEST(CheckPlan, AcceptsACorrectPlan) {
  EXPECT_TRUE(check_plan(small_plan()).empty());
}

TEST(CheckPlan, NamesEachBrokenRuleOfTheStep) {
  StepPlan plan = small_plan();
  plan.layout.layer_begin = {0, 2, 2};
  EXPECT_TRUE(reports(plan, "stage 1 has layers [2, 2)"));
  plan.layout.layer_begin = {1, 2};
  EXPECT_TRUE(reports(plan, "starts at 1"));
  plan.layout.layer_begin = {0};
  EXPECT_TRUE(reports(plan, "layer_begin has 1"));
  plan = small_plan();
  plan.recompute.assign(3, Recompute::kMlp);
  EXPECT_TRUE(reports(plan, "recompute has 3 entries for 4 layers"));
  plan.recompute.assign(4, Recompute::kMlp);
  EXPECT_TRUE(check_plan(plan).empty());

  plan = small_plan();
  plan.replicas.clear();
  EXPECT_TRUE(reports(plan, "no replica"));
  plan = small_plan();
  plan.replicas.push_back(plan.replicas.front());
  EXPECT_TRUE(reports(plan, "MicroPack 0 is of 1 replicas, its sequence 0 is on 2"));
  plan.replicas.push_back(plan.replicas.front());
  EXPECT_TRUE(reports(plan, "MicroPack 0 is of 1 replicas, its sequence 0 is on 3"));
  plan.replicas[1] = {};
  EXPECT_TRUE(reports(plan, "sequence 0 is on replicas 0 and 2"));
  plan = small_plan();
  plan.replicas.front().sequences = {SequenceId(0)};
  EXPECT_TRUE(reports(plan, "sequence 1 is on no replica"));
  EXPECT_TRUE(reports(plan, "holds sequence 1, which is not on it"));
  plan = small_plan();
  plan.replicas.front().sequences = {SequenceId(1), SequenceId(0)};
  EXPECT_TRUE(reports(plan, "ids must ascend"));
  plan = small_plan();
  plan.replicas.front().sequences.emplace_back(std::int32_t{7});
  EXPECT_TRUE(reports(plan, "lists sequence 7"));
  plan = small_plan();
  plan.lengths[1] = Tokens(0);
  EXPECT_TRUE(reports(plan, "sequence 1 has 0 tokens"));
}

/// The small plan on two replicas that run everything together.
StepPlan merged_plan() {
  StepPlan plan = small_plan();
  PackPlan& packs = plan.replicas.front().packs;
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass) pack.replicas = 2;
  plan.replicas.push_back(plan.replicas.front());
  return plan;
}

TEST(CheckPlan, AcceptsMergedReplicasThatMeetInOneOrder) {
  EXPECT_EQ(check_plan(merged_plan()), std::vector<std::string>());
  // In backward pack 0 each replica holds 4 / 2 rows of sequence 1 and 3 / 2, rounded up, of
  // sequence 0.
  EXPECT_EQ(merged_plan().replicas[0].packs.backward[0].rows(), Tokens(4));
}

TEST(CheckPlan, NamesEachBrokenRuleOfMergedReplicas) {
  for (const Pass pass : kWholePasses) {
    StepPlan plan = merged_plan();
    auto& packs = plan.replicas[1].packs.of(pass);
    std::swap(packs[0].slices, packs[1].slices);
    EXPECT_TRUE(reports(plan, pass == Pass::kBackward ? "replicas 0 and 1, backward: merged"
                                                      : "replicas 0 and 1, forward: merged"));
    plan = merged_plan();
    plan.replicas[0].packs.of(pass)[1].replicas = 4;
    EXPECT_TRUE(reports(plan, "MicroPack 1 is of 4 replicas"));
  }
  StepPlan plan = merged_plan();
  // Replicas 1 and 2 are neighbours, but no group.
  plan.replicas.insert(plan.replicas.begin(), ReplicaPlan{});
  EXPECT_TRUE(
      reports(plan, "sequence 0 is on replicas 1 to 2: a group of n begins at a multiple of n"));
}

/// The plan with zones of either kind: one for sequence 0, and both replicas for sequence 1.
StepPlan with_zones(StepPlan plan, std::vector<Zone> MicroPack::*zones, const Zone& of_sequence_0) {
  for (ReplicaPlan& replica : plan.replicas)
    for (const Pass pass : kWholePasses)
      for (MicroPack& pack : replica.packs.of(pass))
        for (const Slice& slice : pack.slices)
          (pack.*zones).push_back(slice.sequence == SequenceId(0) ? of_sequence_0 : Zone{0, 2});
  return plan;
}

/// The merged plan with sequence 0 on replica 0 alone, and sequence 1 on both.
StepPlan zoned_plan() {
  return with_zones(merged_plan(), &MicroPack::zones, {0, 1});
}

/// Changes every replica's last MicroPack of a pass.
template <class Change>
StepPlan with_last_packs(StepPlan plan, Pass pass, Change change) {
  for (ReplicaPlan& replica : plan.replicas) change(replica.packs.of(pass).back());
  return plan;
}

TEST(CheckPlan, AcceptsZones) {
  EXPECT_EQ(check_plan(zoned_plan()), std::vector<std::string>());
  // In backward pack 0 replica 0 holds the 3 rows of sequence 0 and half of the 4 of sequence 1.
  EXPECT_EQ(zoned_plan().replicas[0].packs.backward[0].rows(), Tokens(5));
}

TEST(CheckPlan, NamesEachBrokenRuleOfZones) {
  for (const Pass pass : kWholePasses) {
    const auto changed = [&](auto change) { return with_last_packs(zoned_plan(), pass, change); };
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.zones.emplace_back(); }), "zones for"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.zones[0].size = 3; }),
                        "its group has 2 members"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.zones[0].size = 0; }),
                        "its group has 2 members"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.zones[0] = {1, 1}; }), "has the zones"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.zones.clear(); }), "has the zones"));
  }
  StepPlan plan = small_plan();
  plan.replicas[0].packs.forward[0].zones.assign(2, {});
  EXPECT_TRUE(reports(plan, "has zones, but one replica runs it"));

  // Three sequences whose zones are local, shared, local.
  plan = {{Tokens(2), Tokens(2), Tokens(2)}, {{0, 1}}, {}, {}};
  const MicroPack pack{
      {slice(0, 0, 2), slice(1, 0, 2), slice(2, 0, 2)}, 2, {Zone{0, 1}, Zone{0, 2}, Zone{0, 1}}};
  plan.replicas.assign(2, {{SequenceId(0), SequenceId(1), SequenceId(2)}, {{pack}, {pack}}});
  EXPECT_TRUE(reports(plan, "slices of the zone [0, 1) apart from others"));
}

/// The zoned plan whose rows of sequence 0 lie on replica 1.
StepPlan remapped_plan() {
  return with_zones(zoned_plan(), &MicroPack::row_zones, {1, 1});
}

TEST(CheckPlan, AcceptsRowZones) {
  EXPECT_EQ(check_plan(remapped_plan()), std::vector<std::string>());
  // In backward pack 0 replica 1 holds the 3 rows of sequence 0 and half of the 4 of sequence 1.
  EXPECT_EQ(remapped_plan().replicas[0].packs.backward[0].rows(), Tokens(5));
}

TEST(CheckPlan, NamesEachBrokenRuleOfRowZones) {
  for (const Pass pass : kWholePasses) {
    const auto changed = [&](auto change) {
      return with_last_packs(remapped_plan(), pass, change);
    };
    EXPECT_TRUE(
        reports(changed([](MicroPack& pack) { pack.row_zones.emplace_back(); }), "row zones for"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) { pack.row_zones[0].size = 3; }),
                        "has the row zone [1, 4), its group has 2 members"));
    EXPECT_TRUE(reports(changed([](MicroPack& pack) {
                          pack.row_zones[0] = {0, 1};
                        }),
                        "has the row zones"));
  }
  StepPlan plan = small_plan();
  plan.replicas[0].packs.forward[0].row_zones.assign(2, {});
  EXPECT_TRUE(reports(plan, "has row zones, but one replica runs it"));
}

TEST(CheckPlan, GroupsOfSizesThatDoNotNestAreReported) {
  // Sequence 0 on replicas 0 and 1, sequence 1 on replicas 0 to 2.
  StepPlan plan{{Tokens(2), Tokens(3)}, {{0, 1}}, {}, {}};
  const MicroPack two{{slice(0, 0, 2)}, 2}, three{{slice(1, 0, 3)}, 3};
  for (int r = 0; r < 3; ++r) {
    ReplicaPlan& replica = plan.replicas.emplace_back();
    if (r < 2) replica = {{SequenceId(0), SequenceId(1)}, {{three, two}, {three, two}}};
    if (r == 2) replica = {{SequenceId(1)}, {{three}, {three}}};
  }
  EXPECT_TRUE(reports(plan, "groups have 2 and 3 replicas"));
  plan.replicas[0] = plan.replicas[1] = plan.replicas[2];
  plan.lengths = {Tokens(3)};
  for (ReplicaPlan& replica : plan.replicas) {
    replica.sequences = {SequenceId(0)};
    for (const Pass pass : kWholePasses)
      replica.packs.of(pass)[0].slices[0].sequence = SequenceId(0);
  }
  EXPECT_EQ(check_plan(plan), std::vector<std::string>());
}

TEST(CheckPlan, NamesEachBrokenRuleOfAPass) {
  for (const Pass pass : kWholePasses) {
    StepPlan plan = small_plan();
    packs_of(plan, pass).push_back({});
    EXPECT_TRUE(reports(plan, "MicroPack 2 is empty"));
    for (const Slice& bad : {slice(0, 3, 3), slice(0, 5, 3), slice(0, -1, 3), slice(0, 6, 11)}) {
      plan = small_plan();
      packs_of(plan, pass)[0].slices.push_back(bad);
      EXPECT_TRUE(reports(plan, "of sequence 0, which has 10"));
    }
    for (const std::int32_t id : {-1, 2}) {
      plan = small_plan();
      packs_of(plan, pass)[0].slices.push_back(slice(id, 0, 1));
      EXPECT_TRUE(reports(plan, "which is not on it"));
    }
    plan = small_plan();
    std::swap(packs_of(plan, pass)[0], packs_of(plan, pass)[1]);
    EXPECT_TRUE(reports(plan, pass == Pass::kBackward ? "must descend" : "must ascend"));
  }
  StepPlan plan = small_plan();
  packs_of(plan, Pass::kForward) = {{{slice(0, 0, 6), slice(0, 6, 10), slice(1, 0, 4)}}};
  EXPECT_TRUE(reports(plan, "holds two slices of sequence 0"));
  plan = small_plan();
  packs_of(plan, Pass::kForward)[0].slices[0] = slice(0, 0, 5);
  EXPECT_TRUE(reports(plan, "tokens [5, 6) of sequence 0 are in no forward"));
  packs_of(plan, Pass::kForward)[0].slices[0] = slice(0, 0, 8);
  EXPECT_TRUE(reports(plan, "tokens [6, 8) of sequence 0 are in two forward"));
  packs_of(plan, Pass::kForward).erase(packs_of(plan, Pass::kForward).begin() + 1);
  EXPECT_TRUE(reports(plan, "tokens [8, 10) of sequence 0 are in no forward"));
  EXPECT_TRUE(reports(plan, "sequence 1 is in no forward"));
}

TEST(CheckPlan, StopsAtTheLimit) {
  StepPlan plan = small_plan();
  plan.replicas.front().packs = {};
  EXPECT_EQ(check_plan(plan, 3).size(), 3U);
  EXPECT_THROW(require_valid_plan(plan, "plan.json"), InvalidInput);
}

RC_GTEST_PROP(CheckPlan, AcceptsEveryCorrectPlan, (std::uint64_t seed)) {
  Rng rng(seed);
  RC_ASSERT(check_plan(random_plan(rng, 3)).empty());
}

/// One change that breaks a rule, whatever the plan. Backward slices are changed as forward ones.
void corrupt(StepPlan& plan, Rng& rng, std::uint64_t kind) {
  auto& packs = packs_of(plan, kWholePasses[rng.below(2)]);
  auto& pack = packs[rng.below(packs.size())];
  Slice& hit = pack.slices[rng.below(pack.slices.size())];
  switch (kind) {
    case 0:  // a token lost at the end of a slice
      hit.end -= Tokens(1);
      break;
    case 1:  // a token twice, or beyond the sequence
      hit.end += Tokens(1);
      break;
    case 2:
      hit.begin += Tokens(1);
      break;
    case 3:
      hit.begin -= Tokens(1);
      break;
    case 4:  // a slice lost
      std::swap(hit, pack.slices.back());
      pack.slices.pop_back();
      break;
    case 5:  // a slice twice
      packs[rng.below(packs.size())].slices.push_back(Slice(hit));
      break;
    case 6:  // a whole pack twice
      packs.push_back(MicroPack(pack));
      break;
    default:  // another sequence's tokens
      hit.sequence = SequenceId((hit.sequence.index() + 1) % (plan.lengths.size() + 1));
  }
}

RC_GTEST_PROP(CheckPlan, CatchesEveryCorruption, (std::uint64_t seed)) {
  Rng rng(seed);
  StepPlan plan = random_plan(rng, 2);
  const std::uint64_t kind = rng.below(8);
  corrupt(plan, rng, kind);
  RC_LOG() << "kind " << kind << "\n";
  RC_ASSERT(!check_plan(plan).empty());
}

TEST(ForwardsNeeded, CountsUpToTheLastForwardOfEverySequenceOfThePack) {
  // Pack 0 backward holds both sequences, whose last forward pack is 1; so does pack 1.
  EXPECT_EQ(forwards_needed(small_plan().replicas.front().packs),
            (std::vector<std::int32_t>{2, 2}));
}

RC_GTEST_PROP(ForwardsNeeded, IsTheHighestForwardIndexSharingASequence, (std::uint64_t seed)) {
  Rng rng(seed);
  const PackPlan packs = random_plan(rng, 1).replicas.front().packs;
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  RC_ASSERT(needed.size() == packs.backward.size());
  for (std::size_t b = 0; b < needed.size(); ++b) {
    std::int32_t expected = 0;
    for (std::size_t f = 0; f < packs.forward.size(); ++f)
      for (const Slice& x : packs.forward[f].slices)
        for (const Slice& y : packs.backward[b].slices)
          if (x.sequence == y.sequence) expected = static_cast<std::int32_t>(f) + 1;
    RC_ASSERT(needed[b] == expected);
  }
}

TEST(MicroPack, TokensAreTheSumOfItsSlices) {
  EXPECT_EQ(small_plan().replicas.front().packs.forward[1].tokens(), Tokens(8));
}

}  // namespace
}  // namespace slimpack
