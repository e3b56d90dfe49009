#include "slimpack/solver/exact_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack {
namespace {

constexpr std::int64_t kGrid = 128;

std::vector<MicroPack> in_one(const ExactCutProblem& problem) {
  MicroPack pack;
  for (const SequenceId id : problem.sequences) {
    pack.slices.push_back({id, Tokens(0), problem.lengths[id.index()]});
  }
  return {pack};
}

TEST(PassTime, IsTheWorkAndTheLargestPackOnceMorePerFurtherStage) {
  const auto pack = [](std::int64_t tokens) {
    return MicroPack{{{SequenceId(0), Tokens(0), Tokens(tokens)}}};
  };
  // 10 + 30 + 20, each + 1; 3 more stages wait for the 31.
  const PackCost cost{.per_pack = 1, .per_token = 1};
  const std::vector<MicroPack> packs{pack(10), pack(30), pack(20)};
  EXPECT_EQ(pass_time(packs, cost, 4), 63 + 3 * 31);
}

RC_GTEST_PROP(PassTime, EqualsTheRecurrenceOfAFlowShop, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const int stages = static_cast<int>(1 + rng.below(6));
  std::vector<MicroPack> packs;
  for (std::uint64_t i = 1 + rng.below(12); i > 0; --i) {
    packs.push_back(
        {{{SequenceId(0), Tokens(0), Tokens(static_cast<std::int64_t>(1 + rng.below(99)))}}});
  }
  // A pack starts on a stage when the stage before has done it and this one has done the last.
  std::vector<double> free(static_cast<std::size_t>(stages), 0.0);
  for (const MicroPack& pack : packs) {
    double ready = 0;
    for (double& at : free)
      ready = at = std::max(ready, at) + static_cast<double>(pack.tokens().count());
  }
  RC_ASSERT(pass_time(packs, {.per_token = 1}, stages) == free.back());
}

TEST(ExactCut, CutsOneSequenceIntoEqualSlices) {
  ExactCutProblem problem;
  problem.lengths = {Tokens(1024)};
  problem.sequences = {SequenceId(0)};
  problem.cost = {.per_token = 1};
  problem.stages = 4;
  problem.grid = Tokens(kGrid);
  problem.packs = 4;
  const ExactCut result = exact_cut(problem, in_one(problem), {});
  // 1,024 of work and three times the largest, at best a quarter.
  EXPECT_DOUBLE_EQ(result.time, 1024 + 3 * 256);
  EXPECT_TRUE(result.optimal);
  EXPECT_EQ(result.packs.size(), 4U);
}

TEST(ExactCut, LeavesEverythingTogetherWhenCutsCostMoreThanTheySave) {
  ExactCutProblem problem;
  problem.lengths = {Tokens(512)};
  problem.sequences = {SequenceId(0)};
  // Halves save (2 − 1) · 256; the second pack and slice cost 300, and both are in the largest.
  problem.cost = {.per_pack = 200, .per_slice = 100, .per_token = 1};
  problem.stages = 2;
  problem.grid = Tokens(kGrid);
  problem.packs = 2;
  const ExactCut result = exact_cut(problem, in_one(problem), {});
  EXPECT_EQ(result.packs, in_one(problem));
  EXPECT_DOUBLE_EQ(result.time, 2 * 812);
}

TEST(ExactCut, KeepsItsStartWhenTheLimitsLeaveNoTime) {
  ExactCutProblem problem;
  problem.lengths = {Tokens(1024)};
  problem.sequences = {SequenceId(0)};
  problem.cost = {.per_pack = 10, .per_token = 1};
  problem.stages = 4;
  problem.grid = Tokens(kGrid);
  problem.packs = 4;
  const ExactCut result = exact_cut(problem, in_one(problem), {.seconds = 0});
  EXPECT_EQ(result.packs, in_one(problem));
  EXPECT_DOUBLE_EQ(result.time, 4 * 1034);
  EXPECT_FALSE(result.optimal);
  // The work and one pack, and three times a quarter of the work and a pack.
  EXPECT_DOUBLE_EQ(result.bound, 1034 + 3 * 266);
}

class ExactCutMisuse : public ::testing::Test {
 protected:
  ExactCutMisuse() {
    problem.lengths = {Tokens(300), Tokens(100)};
    problem.sequences = {SequenceId(0), SequenceId(1)};
    problem.cost = {.per_token = 1};
    problem.stages = 2;
    problem.grid = Tokens(kGrid);
    problem.packs = 3;
  }

  void expect_refused(const std::vector<MicroPack>& start) {
    EXPECT_THROW((void)exact_cut(problem, start, {}), InternalError);
  }

  static Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
    return {SequenceId(sequence), Tokens(begin), Tokens(end)};
  }

  ExactCutProblem problem;
};

TEST_F(ExactCutMisuse, RefusesAStartThatIsNoPassOfThePlan) {
  EXPECT_NO_THROW((void)exact_cut(problem, in_one(problem), {}));
  expect_refused({});
  std::vector<MicroPack> merged = in_one(problem);
  merged[0].replicas = 2;
  expect_refused(merged);
  expect_refused({{{slice(0, 0, 300)}}});                                            // 1 is missing
  expect_refused({{{slice(0, 0, 300), slice(1, 0, 100)}}, {{slice(1, 0, 100)}}});    // 1 is twice
  expect_refused({{{slice(0, 0, 300), slice(1, 0, 100)}}, {}});                      // empty
  expect_refused({{{slice(0, 0, 200), slice(1, 0, 100)}}, {{slice(0, 200, 300)}}});  // off the grid
  expect_refused(
      {{{slice(0, 128, 300), slice(1, 0, 100)}}, {{slice(0, 0, 128)}}});       // from the tail
  expect_refused({{{slice(0, 0, 400), slice(1, 0, 100)}}});                    // longer than it is
  expect_refused({{{slice(0, 0, 300), slice(1, 0, 100), slice(2, 0, 100)}}});  // unknown
}

TEST_F(ExactCutMisuse, RefusesMorePacksInTheStartThanAllowed) {
  problem.packs = 1;
  expect_refused({{{slice(0, 0, 300)}}, {{slice(1, 0, 100)}}});
}

TEST_F(ExactCutMisuse, RefusesNumbersWithoutMeaning) {
  const ExactCutProblem good = problem;
  const auto refuses = [&](auto change) {
    problem = good;
    change();
    expect_refused(in_one(good));
  };
  refuses([&] { problem.cost.per_token = -1; });
  refuses([&] { problem.cost.per_pair = std::numeric_limits<double>::quiet_NaN(); });
  refuses([&] { problem.cost.per_pack = -1; });
  refuses([&] { problem.stages = 0; });
  refuses([&] { problem.packs = 0; });
  refuses([&] { problem.grid = Tokens(0); });
  refuses([&] { problem.sequences.clear(); });
  refuses([&] { problem.sequences[1] = problem.sequences[0]; });
  refuses([&] { problem.sequences[1] = SequenceId(2); });
  refuses([&] { problem.lengths[1] = Tokens(0); });
}

TEST_F(ExactCutMisuse, RefusesMoreGranulesThanItCanHandle) {
  problem.lengths[0] = Tokens(static_cast<std::int64_t>(kMaxGranules) * kGrid);
  expect_refused(in_one(problem));
}

}  // namespace
}  // namespace slimpack
