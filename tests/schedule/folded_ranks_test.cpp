#include "slimpack/schedule/folded_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slimpack {
namespace {

/// "0a 1a 0b 1b": packs with their local stages.
std::string text(const FoldedOrder& order) {
  std::string out;
  for (const FoldedPack& of : order.all()) {
    if (!out.empty()) out += ' ';
    out += std::to_string(of.pack.value());
    out += static_cast<char>('a' + of.local_stage);
  }
  return out;
}

TEST(FoldedOrder, PassesRoundsThroughOneStageAfterTheOther) {
  EXPECT_EQ(text(FoldedOrder(Pass::kForward, {4}, 2, 2)), "0a 1a 0b 1b 2a 3a 2b 3b");
  EXPECT_EQ(text(FoldedOrder(Pass::kBackward, {4}, 2, 2)), "0b 1b 0a 1a 2b 3b 2a 3a");
}

TEST(FoldedOrder, RoundsAreEvenAndEndWithTheirBatch) {
  // Three packs on two ranks are one round; five are two of 2 and 3.
  EXPECT_EQ(text(FoldedOrder(Pass::kForward, {3, 5}, 2, 2)), "0a 1a 2a 0b 1b 2b 3a 4a 3b 4b");
  EXPECT_EQ(text(FoldedOrder(Pass::kForward, {5}, 2, 2)), "0a 1a 0b 1b 2a 3a 4a 2b 3b 4b");
  EXPECT_EQ(text(FoldedOrder(Pass::kForward, {1}, 4, 3)), "0a 0b 0c");
  EXPECT_EQ(text(FoldedOrder(Pass::kForward, {}, 4, 3)), "");
}

TEST(FoldedOrder, FindsEveryPackAgain) {
  const FoldedOrder order(Pass::kBackward, {7, 11}, 3, 4);
  for (std::size_t place = 0; place < order.all().size(); ++place)
    EXPECT_EQ(order.place(order.all()[place]), PackId(place));
}

TEST(Batches, EndWhereBackwardsNeedNoForwardOfTheNext) {
  // Two sequences of four MicroPacks each, on two ranks.
  const Batches apart = batches_of({4, 4, 4, 4, 8, 8, 8, 8}, 8, 2);
  EXPECT_EQ(apart.forward, (std::vector<std::int32_t>{4, 8}));
  EXPECT_EQ(apart.backward, (std::vector<std::int32_t>{4, 8}));
  // Whole sequences: as many as there are ranks.
  EXPECT_EQ(batches_of({1, 2, 3, 4, 5}, 5, 2).forward, (std::vector<std::int32_t>{2, 5}));
  // Two forwards, three backwards, then three and two: a batch of each pass.
  const Batches uneven = batches_of({2, 2, 2, 5, 5}, 5, 2);
  EXPECT_EQ(uneven.forward, (std::vector<std::int32_t>{2, 5}));
  EXPECT_EQ(uneven.backward, (std::vector<std::int32_t>{3, 5}));
}

TEST(FoldedLinks, GoAroundTheRing) {
  // Two ranks of two stages, two packs: forward 0a 1a 0b 1b on both.
  const FoldedOrder order(Pass::kForward, {2}, 2, 2);
  const FoldedLinks links(order, Pass::kForward, 2, 1);
  EXPECT_EQ(links.source[0][0].rank, -1);  // the first stage
  EXPECT_EQ(links.source[1][1].rank, 0);
  EXPECT_EQ(links.source[1][1].place, 1);
  // Pack 1 of the last rank's first stage goes to the first rank's second stage, where pack 0 must
  // have begun: there is one slot.
  EXPECT_EQ(links.target[1][1].rank, 0);
  EXPECT_EQ(links.target[1][1].place, 3);
  EXPECT_EQ(links.target[1][1].begun, 3);
  EXPECT_EQ(links.target[1][3].rank, -1);  // the last stage
}

TEST(FoldedNeeds, CountAllStagesOfTheRank) {
  // Two ranks of two stages; four packs, each needed by the backward of its number. Forward 0a 1a
  // 0b 1b 2a 3a 2b 3b, backward 0b 1b 0a 1a 2b 3b 2a 3a. Pack 0 has passed all with 0b, the third.
  const std::vector<std::int32_t> needed{1, 2, 3, 4};
  const FoldedOrders orders(batches_of(needed, 4, 2), 2, 2);
  const ForwardNeeds needs = folded_needs(needed, orders, 2);
  EXPECT_EQ(needs.running, (std::vector<std::int32_t>{3, 4, 4, 4, 7, 8, 8, 8}));
  // 0a can arrive while 1b has not passed forward.
  EXPECT_EQ(needs.arriving, (std::vector<std::int32_t>{3, 3, 3, 4, 7, 7, 7, 8}));
  EXPECT_EQ(needs.fitting, needs.running);  // rounds of two are within the slots
  // With one slot, a round is one longer in either direction.
  EXPECT_EQ(folded_needs(needed, orders, 1).fitting,
            (std::vector<std::int32_t>{5, 5, 5, 8, 8, 8, 8, 8}));
}

}  // namespace
}  // namespace slimpack
