#include "slimpack/plan/regroup.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>

#include "slimpack/base/error.h"
#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

/// The tokens of a MicroPack, row by row.
using Rows = std::vector<std::pair<std::int32_t, std::int64_t>>;

Rows rows_of(const MicroPack& pack) {
  Rows rows;
  for (const Slice& s : pack.slices)
    for (std::int64_t t = s.begin.count(); t < s.end.count(); ++t)
      rows.emplace_back(s.sequence.value(), t);
  return rows;
}

TEST(Regroup, PicksTheRowsOfABackwardPackFromSeveralForwardPacks) {
  // Forward rows: F0 = A0..3 B0..2, F1 = A4..9. Backward A[2,10) takes rows 2, 3 of F0 and all of
  // F1; then B and A[0,2) take rows 4..6 and 0, 1 of F0, which do not follow each other.
  const PackPlan packs{{{{slice(0, 0, 4), slice(1, 0, 3)}}, {{slice(0, 4, 10)}}},
                       {{{slice(0, 2, 10)}}, {{slice(1, 0, 3), slice(0, 0, 2)}}}};
  const auto segments = regroup(packs);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0], (std::vector<RowSegment>{{PackId(0), Tokens(2), Tokens(2)},
                                                  {PackId(1), Tokens(0), Tokens(6)}}));
  EXPECT_EQ(segments[1], (std::vector<RowSegment>{{PackId(0), Tokens(4), Tokens(3)},
                                                  {PackId(0), Tokens(0), Tokens(2)}}));
}

TEST(Regroup, MergesNeighboursSoThatAnUnchangedPackIsOneSegment) {
  const MicroPack pack{{slice(0, 0, 4), slice(1, 0, 3), slice(2, 0, 1)}};
  const auto segments = regroup({{pack}, {pack}});
  EXPECT_EQ(segments[0], (std::vector<RowSegment>{{PackId(0), Tokens(0), Tokens(8)}}));
}

TEST(Regroup, RefusesABackwardSliceThatNoForwardPackHolds) {
  const PackPlan packs{{{{slice(0, 0, 4)}}}, {{{slice(0, 0, 5)}}}};
  EXPECT_THROW(static_cast<void>(regroup(packs)), InternalError);
}

RC_GTEST_PROP(Regroup, SegmentsLaidEndToEndAreTheRowsOfTheBackwardPack, (std::uint64_t seed)) {
  Rng rng(seed);
  const PackPlan packs = testing::random_plan(rng, 1).replicas.front().packs;
  const auto segments = regroup(packs);
  RC_ASSERT(segments.size() == packs.backward.size());
  for (std::size_t b = 0; b < segments.size(); ++b) {
    Rows laid;
    for (const RowSegment& s : segments[b]) {
      const Rows forward = rows_of(packs.forward.at(s.forward.index()));
      RC_ASSERT(s.begin >= Tokens(0) && s.rows > Tokens(0));
      RC_ASSERT(static_cast<std::size_t>((s.begin + s.rows).count()) <= forward.size());
      laid.insert(laid.end(), forward.begin() + s.begin.count(),
                  forward.begin() + (s.begin + s.rows).count());
    }
    RC_ASSERT(laid == rows_of(packs.backward[b]));
    for (std::size_t i = 1; i < segments[b].size(); ++i)
      RC_ASSERT(segments[b][i].forward != segments[b][i - 1].forward ||
                segments[b][i].begin != segments[b][i - 1].begin + segments[b][i - 1].rows);
  }
}

}  // namespace
}  // namespace slimpack
