#include "slimpack/planner/exact_packs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

/// A step of one replica with everything that StepProblem refers to.
struct Step {
  Costs cost{testing::small_cost()};
  SequenceLengths lengths;
  std::int32_t pp = 1;
  std::size_t size = 64;
  Choices choices;

  [[nodiscard]] StepProblem problem() const {
    return step_problem(stage_table(cost, balanced_layout(cost, lengths, pp)), lengths, choices);
  }
  [[nodiscard]] std::optional<PackPlan> exact(const Unit& of, int packs,
                                              const milp::SolveLimits& limits = {}) const {
    const StepProblem step = problem();
    return exact_packs({step, {.exact = {.nodes = 1, .size = size}}}, of, packs, limits);
  }
  [[nodiscard]] Unit unit() const {
    return units_of(lengths, {{all_sequences(lengths)}, {}, {1}}).front();
  }
};

/// Up to so many granules.
Step random_step(Rng& rng, std::int64_t most) {
  Step step;
  step.pp = 1 + static_cast<std::int32_t>(rng.below(4));
  step.choices.granularity = Tokens(64 << rng.below(4));
  for (std::int64_t left = 1 + static_cast<std::int64_t>(rng.below(most)); left > 0;) {
    const auto granules =
        1 + static_cast<std::int64_t>(rng.below(std::min<std::uint64_t>(left, 5)));
    left -= granules;
    step.lengths.push_back(step.choices.granularity * granules -
                           Tokens(static_cast<std::int64_t>(rng.below(64))));
  }
  return step;
}

void require_valid(Step& step, const PackPlan& packs) {
  const StepPlan plan{
      step.lengths, step.problem().table.layout(), {{all_sequences(step.lengths), packs}}};
  RC_ASSERT(check_plan(plan) == std::vector<std::string>{});
}

RC_GTEST_PROP(ExactPacks, KeepTheProgramWithinItsSize, (std::uint64_t seed)) {
  Rng rng(seed);
  Step step = random_step(rng, 60);
  step.size = 12 + rng.below(20);
  const int packs = 2 + static_cast<int>(rng.below(3));
  const std::size_t most = step.size / static_cast<std::size_t>(packs);
  const auto exact = step.exact(step.unit(), packs, {.nodes = 1});
  RC_ASSERT(exact.has_value() == (step.lengths.size() <= most));
  if (!exact) return;
  require_valid(step, *exact);
  // Slices are granules or more of them.
  for (const auto* pass : {&exact->forward, &exact->backward}) {
    std::size_t slices = 0;
    for (const MicroPack& pack : *pass) slices += pack.slices.size();
    RC_ASSERT(slices <= most);
  }
}

TEST(ExactPacks, RunLongSequencesFirstAndBackwardWhatIsReady) {
  // On a grid of 512 each sequence is a granule or two; whatever the program does with them, a pack
  // of the longest sequence goes first, and a backward pack that needs fewer forwards goes ahead.
  Step step;
  step.lengths = {Tokens(100), Tokens(512), Tokens(300), Tokens(1024), Tokens(200), Tokens(512)};
  step.choices.granularity = Tokens(512);
  step.pp = 3;
  const PackPlan packs = step.exact(step.unit(), 4).value();
  ASSERT_GE(packs.forward.size(), 2U);
  const auto holds_longest = [](const MicroPack& pack) {
    return std::any_of(pack.slices.begin(), pack.slices.end(),
                       [](const Slice& s) { return s.sequence == SequenceId(std::size_t{3}); });
  };
  EXPECT_TRUE(holds_longest(packs.forward.front()));
  EXPECT_FALSE(holds_longest(packs.forward.back()));
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  EXPECT_EQ(needed.front(), *std::min_element(needed.begin(), needed.end()));
}

TEST(ExactPacks, AreNotMadeForSeveralReplicasOrNothing) {
  Step step;
  step.lengths = {Tokens(512), Tokens(256)};
  Unit two = step.unit();
  two.replicas.push_back(two.replicas.front());
  EXPECT_TRUE(step.exact(step.unit(), 2).has_value());
  EXPECT_FALSE(step.exact(two, 2).has_value());
  Unit none = step.unit();
  none.replicas.front().sequences.clear();
  none.replicas.front().lengths.clear();
  EXPECT_FALSE(step.exact(none, 2).has_value());
}

}  // namespace
}  // namespace slimpack
