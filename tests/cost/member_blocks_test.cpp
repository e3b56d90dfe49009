#include "slimpack/cost/member_blocks.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

using Blocks = std::vector<MemberBlock>;

TEST(MemberBlocks, OfASmallGroupAreOne) {
  EXPECT_EQ(member_blocks(1), (Blocks{{0, 1}}));
  EXPECT_EQ(member_blocks(15), (Blocks{{0, 15}}));
}

TEST(MemberBlocks, HaveAboutAsManyMembersAsThereAreBlocks) {
  EXPECT_EQ(member_blocks(20), (Blocks{{0, 8}, {8, 20}}));
  // √256 = 16: two nodes of eight.
  EXPECT_EQ(member_blocks(256).size(), 16U);
  EXPECT_EQ(member_blocks(256)[3], (MemberBlock{48, 64}));
  EXPECT_EQ(member_blocks(1024).size(), 32U);
}

TEST(MemberBlocks, CutNoNode) {
  for (std::int32_t n = 1; n <= 2000; ++n) {
    std::int32_t end = 0;
    for (const MemberBlock& block : member_blocks(n)) {
      ASSERT_EQ(block.begin, end) << n;
      ASSERT_EQ(block.begin % 8, 0) << n;
      ASSERT_GT(block.size(), 0) << n;
      end = block.end;
    }
    ASSERT_EQ(end, n);
  }
}

TEST(MemberBlocks, OfUpTo143MembersAreSingleNodes) {
  for (std::int32_t n = 16; n <= 143; n += 1)
    for (const MemberBlock& block : member_blocks(n))
      EXPECT_EQ(block.size(), block.end == n ? 8 + n % 8 : 8) << n;
}

}  // namespace
}  // namespace slimpack
