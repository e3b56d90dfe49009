#include "slimpack/cost/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace slimpack {
namespace {

using Blocks = std::vector<MemberBlock>;

TEST(MemberBlocks, OfASmallGroupAreOne) {
  EXPECT_EQ(member_blocks(1), (Blocks{{0, 1}}));
  EXPECT_EQ(member_blocks(15), (Blocks{{0, 15}}));
}

TEST(MemberBlocks, HaveAboutAsManyMembersAsThereAreBlocks) {
  EXPECT_EQ(member_blocks(20), (Blocks{{0, 8}, {8, 16}, {16, 20}}));
  // √256 = 16: two nodes of eight.
  EXPECT_EQ(member_blocks(256).size(), 16U);
  EXPECT_EQ(member_blocks(256)[3], (MemberBlock{48, 64}));
  EXPECT_EQ(member_blocks(1024).size(), 32U);
}

TEST(MemberBlocks, HaveNoSmallRestThatServesAll) {
  // Blocks of eight would leave 24 alone, to talk to all others; of 16, nine serve 16 places.
  EXPECT_EQ(member_blocks(25), (Blocks{{0, 16}, {16, 25}}));
  // One block: member 16 talks to all others in any case, and so needs one round.
  EXPECT_EQ(member_blocks(17), (Blocks{{0, 17}}));
}

TEST(MemberBlocks, CutNeitherNodesNorPairwiseSums) {
  for (std::int32_t n = 1; n <= 2000; ++n) {
    const Blocks blocks = member_blocks(n);
    const std::int32_t size = blocks.front().size();
    ASSERT_TRUE(blocks.size() == 1 || (size % 8 == 0 && std::has_single_bit(unsigned(size)))) << n;
    std::int32_t end = 0;
    for (const MemberBlock& block : blocks) {
      ASSERT_EQ(block.begin, end) << n;
      end = std::min(block.begin + size, n);
      ASSERT_EQ(block.end, end) << n;
    }
    ASSERT_EQ(end, n);
  }
}

}  // namespace
}  // namespace slimpack
