#include "slimpack/solver/paired_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/base/random.h"
#include "slimpack/plan/regroup.h"
#include "slimpack/solver/fluid_cut.h"

namespace slimpack {
namespace {

constexpr PackCost kPerToken{.per_token = 1};

PackPlan cut(const SequenceLengths& lengths, int packs, Tokens granularity,
             const PackCost& cost = kPerToken) {
  return paired_cut(lengths, fluid_order(lengths, all_sequences(lengths), 0), cost, packs,
                    granularity);
}

TEST(PairedCut, CutsLongSequencesAndFillsUpWithWholeOnes) {
  // 40 tokens in four MicroPacks of 10: 25 is cut into 10, 10 and 5. 6 opens another, which 4 fills
  // up; 3 and 2 fill up the third. Backward runs the cut sequence from its tail.
  const SequenceLengths lengths{Tokens(25), Tokens(6), Tokens(4), Tokens(3), Tokens(2)};
  const auto slice = [](int q, std::int64_t begin, std::int64_t end) {
    return Slice{SequenceId(q), Tokens(begin), Tokens(end)};
  };
  const MicroPack first{{slice(0, 0, 10)}}, second{{slice(0, 10, 20)}},
      third{{slice(0, 20, 25), slice(3, 0, 3), slice(4, 0, 2)}},
      fourth{{slice(1, 0, 6), slice(2, 0, 4)}};
  EXPECT_EQ(cut(lengths, 4, Tokens(1)),
            (PackPlan{{first, second, third, fourth}, {third, second, first, fourth}}));
}

TEST(PairedCut, KeepsOneMicroPackWhereOneIsAskedFor) {
  const SequenceLengths lengths{Tokens(3), Tokens(7), Tokens(1)};
  EXPECT_EQ(cut(lengths, 1, Tokens(1), {.per_slice = 0.1, .per_token = 0.3}).forward.size(), 1);
}

RC_GTEST_PROP(PairedCut, IsAValidPlanOfPairsWithinTheNumberAskedFor, (std::uint64_t seed)) {
  Rng rng(seed);
  SequenceLengths lengths(1 + rng.below(30));
  for (Tokens& length : lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{4} << rng.below(10))));
  const int packs = 1 + static_cast<int>(rng.below(20));
  const Tokens granularity(std::int64_t{1} << rng.below(8));
  const PackCost cost{.per_slice = rng.uniform(), .per_token = 1, .per_pair = 0.01 * rng.uniform()};
  const PackPlan plan = cut(lengths, packs, granularity, cost);
  RC_ASSERT(check_plan(StepPlan{lengths, {{0, 1}}, {{all_sequences(lengths), plan}}}).empty());
  RC_ASSERT(all_paired(plan));
  RC_ASSERT(plan.forward.size() <= static_cast<std::size_t>(packs));
  for (const MicroPack& pack : plan.forward)
    for (const Slice& slice : pack.slices)
      RC_ASSERT(slice.begin.count() % granularity.count() == 0);
}

}  // namespace
}  // namespace slimpack
