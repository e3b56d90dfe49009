#include "slimpack/plan/regroup.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

TEST(PairedPacks, HoldTheSameSlicesInWhateverOrder) {
  const MicroPack first{{slice(0, 0, 4), slice(1, 0, 3)}}, second{{slice(0, 4, 9)}};
  const MicroPack turned{{slice(1, 0, 3), slice(0, 0, 4)}};
  const PackPlan packs{{first, second}, {second, turned}};
  EXPECT_EQ(forward_pairs(packs), (std::vector<std::optional<PackId>>{PackId(1), PackId(0)}));
  EXPECT_TRUE(all_paired(packs));
}

TEST(PairedPacks, DoNotShareOnlyASlice) {
  const PackPlan packs{{{{slice(0, 0, 4), slice(1, 0, 3)}}, {{slice(0, 4, 9)}}},
                       {{{slice(0, 4, 9), slice(1, 0, 3)}}, {{slice(0, 0, 4)}}}};
  EXPECT_EQ(forward_pairs(packs), (std::vector<std::optional<PackId>>{std::nullopt, std::nullopt}));
  EXPECT_FALSE(all_paired(packs));
}

}  // namespace
}  // namespace slimpack
