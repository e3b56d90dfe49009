#include "slimpack/solver/exact_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "slimpack/solver/fluid_cut.h"

namespace slimpack {
namespace {

constexpr std::int64_t kGrid = 128;

/// One pass as plain numbers: pack[s][g] of granule g of sequence s. Shares no code with the
/// solver.
using Assignment = std::vector<std::vector<int>>;

std::int64_t granules_of(Tokens length) {
  return (length.count() + kGrid - 1) / kGrid;
}

double time_of(const ExactCutProblem& problem, const Assignment& pack) {
  std::vector<double> time(static_cast<std::size_t>(problem.packs), 0.0);
  std::vector<bool> used(time.size(), false);
  const SliceCost& cost = problem.cost.slice;
  for (std::size_t s = 0; s < pack.size(); ++s) {
    const std::int64_t length = problem.lengths[problem.sequences[s].index()].count();
    for (std::size_t g = 0; g < pack[s].size();) {
      std::size_t end = g;
      while (end < pack[s].size() && pack[s][end] == pack[s][g]) ++end;
      const auto a = static_cast<double>(static_cast<std::int64_t>(g) * kGrid);
      const auto b = static_cast<double>(std::min(static_cast<std::int64_t>(end) * kGrid, length));
      const auto p = static_cast<std::size_t>(pack[s][g]);
      used[p] = true;
      // The pairs of rows a … b − 1 are a + 1, …, b.
      time[p] += cost.per_slice + cost.per_token * (b - a) +
                 cost.per_pair * (b * (b + 1) - a * (a + 1)) / 2 + cost.per_prefix_token * a;
      g = end;
    }
  }
  double sum = 0;
  double largest = 0;
  for (std::size_t p = 0; p < time.size(); ++p) {
    if (used[p]) time[p] += problem.cost.per_pack;
    sum += time[p];
    largest = std::max(largest, time[p]);
  }
  return sum + (problem.cost.stages - 1) * largest;
}

bool in_order(const ExactCutProblem& problem, const Assignment& pack) {
  return std::all_of(pack.begin(), pack.end(), [&](const std::vector<int>& granules) {
    return problem.from == CutFrom::kHead ? std::is_sorted(granules.begin(), granules.end())
                                          : std::is_sorted(granules.rbegin(), granules.rend());
  });
}

double best_by_enumeration(const ExactCutProblem& problem) {
  Assignment pack;
  for (const SequenceId id : problem.sequences) {
    pack.emplace_back(static_cast<std::size_t>(granules_of(problem.lengths[id.index()])), 0);
  }
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    if (in_order(problem, pack)) best = std::min(best, time_of(problem, pack));
    bool carried = true;
    for (std::size_t s = 0; s < pack.size() && carried; ++s) {
      for (std::size_t g = 0; g < pack[s].size() && carried; ++g) {
        carried = ++pack[s][g] == problem.packs;
        if (carried) pack[s][g] = 0;
      }
    }
    if (carried) return best;
  }
}

/// Up to `most` granules; coefficients of which any may be 0.
ExactCutProblem random_problem(Rng& rng, std::uint64_t most, int most_packs) {
  ExactCutProblem problem;
  const auto coefficient = [&](double scale) {
    return rng.below(3) == 0 ? 0.0 : rng.uniform() * scale;
  };
  problem.cost.slice = {coefficient(1e5), coefficient(1e3), coefficient(5), coefficient(500)};
  problem.cost.per_pack = coefficient(2e5);
  problem.cost.stages = static_cast<int>(1 + rng.below(5));
  problem.packs = static_cast<int>(1 + rng.below(static_cast<std::uint64_t>(most_packs)));
  problem.grid = Tokens(kGrid);
  problem.from = rng.below(2) == 0 ? CutFrom::kHead : CutFrom::kTail;
  for (std::uint64_t left = 1 + rng.below(most); left > 0;) {
    const std::uint64_t granules = 1 + rng.below(std::min<std::uint64_t>(left, 5));
    left -= granules;
    // Whole granules often, so that sequences of equal length appear.
    const std::uint64_t last = rng.below(2) == 0 ? kGrid : 1 + rng.below(kGrid);
    problem.lengths.emplace_back(static_cast<std::int64_t>((granules - 1) * kGrid + last));
  }
  problem.sequences = all_sequences(problem.lengths);
  return problem;
}

std::vector<MicroPack> in_one(const ExactCutProblem& problem) {
  MicroPack pack;
  for (const SequenceId id : problem.sequences) {
    pack.slices.push_back({id, Tokens(0), problem.lengths[id.index()]});
  }
  return {pack};
}

/// One valid pass of the plan and a trivial other one.
std::vector<std::string> errors_of(const ExactCutProblem& problem,
                                   const std::vector<MicroPack>& packs) {
  PackPlan plan{packs, in_one(problem)};
  if (problem.from == CutFrom::kTail) std::swap(plan.forward, plan.backward);
  std::vector<SequenceId> ids = problem.sequences;
  std::sort(ids.begin(), ids.end());
  return check_plan(StepPlan{problem.lengths, StageLayout{{0, 1}}, {{ids, plan}}});
}

TEST(PassTime, IsTheWorkAndTheLargestPackOnceMorePerFurtherStage) {
  const auto pack = [](std::int64_t tokens) {
    return MicroPack{{{SequenceId(0), Tokens(0), Tokens(tokens)}}};
  };
  // 10 + 30 + 20, each + 1; 3 more stages wait for the 31.
  const PassCost cost{{.per_token = 1}, 1, 4};
  const std::vector<MicroPack> packs{pack(10), pack(30), pack(20)};
  EXPECT_EQ(pass_time(packs, cost), 63 + 3 * 31);
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
  RC_ASSERT(pass_time(packs, {{.per_token = 1}, 0, stages}) == free.back());
}

TEST(ExactCut, CutsOneSequenceIntoEqualSlices) {
  ExactCutProblem problem;
  problem.lengths = {Tokens(1024)};
  problem.sequences = {SequenceId(0)};
  problem.cost = {{.per_token = 1}, 0, 4};
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
  problem.cost = {{.per_slice = 100, .per_token = 1}, 200, 2};
  problem.grid = Tokens(kGrid);
  problem.packs = 2;
  const ExactCut result = exact_cut(problem, in_one(problem), {});
  EXPECT_EQ(result.packs, in_one(problem));
  EXPECT_DOUBLE_EQ(result.time, 2 * 812);
}

RC_GTEST_PROP(ExactCut, EqualsEnumeration, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const ExactCutProblem problem = random_problem(rng, 8, 3);
  const double optimum = best_by_enumeration(problem);
  const ExactCut result = exact_cut(problem, in_one(problem), {});
  RC_ASSERT(errors_of(problem, result.packs) == std::vector<std::string>{});
  RC_ASSERT(result.packs.size() <= static_cast<std::size_t>(problem.packs));
  RC_ASSERT(std::abs(result.time - optimum) <= 2e-6 * optimum);
  RC_ASSERT(result.optimal);
  RC_ASSERT(result.bound <= optimum * (1 + 1e-12));
  RC_ASSERT(result.bound >= optimum * (1 - 4e-6));
}

RC_GTEST_PROP(ExactCut, IsNeverWorseThanTheFluidCut, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const ExactCutProblem problem = random_problem(rng, 12, 4);
  FluidCutOptions options;
  options.packs = problem.packs;
  options.granularity = problem.grid;
  const std::vector<SequenceId> order = fluid_order(problem.lengths, problem.sequences, 0);
  const PackPlan fluid =
      fluid_cut(problem.lengths, order, problem.cost.slice, problem.cost.slice, options);
  const bool head = problem.from == CutFrom::kHead;
  const std::vector<MicroPack>& start = head ? fluid.forward : fluid.backward;
  const milp::SolveLimits limits{.nodes = 2};
  const ExactCut result = exact_cut(problem, start, limits);
  RC_ASSERT(errors_of(problem, result.packs) == std::vector<std::string>{});
  RC_ASSERT(result.time <= pass_time(start, problem.cost) * (1 + 1e-12));
  RC_ASSERT(result.time == pass_time(result.packs, problem.cost));
  RC_ASSERT(result.bound <= result.time);
  const ExactCut again = exact_cut(problem, start, limits);
  RC_ASSERT(again.packs == result.packs);
  RC_ASSERT(again.bound == result.bound);
}

TEST(ExactCut, KeepsItsStartWhenTheLimitsLeaveNoTime) {
  ExactCutProblem problem;
  problem.lengths = {Tokens(1024)};
  problem.sequences = {SequenceId(0)};
  problem.cost = {{.per_token = 1}, 10, 4};
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
    problem.cost = {{.per_token = 1}, 0, 2};
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
  refuses([&] { problem.cost.slice.per_token = -1; });
  refuses([&] { problem.cost.slice.per_pair = std::numeric_limits<double>::quiet_NaN(); });
  refuses([&] { problem.cost.per_pack = -1; });
  refuses([&] { problem.cost.stages = 0; });
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
