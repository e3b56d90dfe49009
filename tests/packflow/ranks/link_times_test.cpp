#include "slimpack/packflow/ranks/link_times.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

/// Nodes of two ranks with a card each. A byte takes 1 ns in a node and 10 ns over a card.
constexpr LinkMap kMap{.ranks_per_node = 2,
                       .nics_per_node = 2,
                       .node_latency = 5,
                       .node_per_byte = 1,
                       .nic_latency = 100,
                       .nic_per_byte = 10};

constexpr GroupMessage message(std::int64_t sent, std::int64_t bytes) {
  return {Nanos(sent), Bytes(bytes)};
}

TEST(LinkTimes, ASendersMessagesLeaveOneAfterTheOther) {
  SenderLink link(kMap, 0);
  EXPECT_EQ(link.arrival(Nanos(10), 1, Bytes(20)), Nanos(10 + 20 + 5));
  // Leaves once the first has, at 30.
  EXPECT_EQ(link.arrival(Nanos(15), 1, Bytes(20)), Nanos(50 + 5));
  // The card is another link.
  EXPECT_EQ(link.arrival(Nanos(15), 2, Bytes(20)), Nanos(15 + 200 + 100));
}

TEST(LinkTimes, AShiftTakesAsLongAsEachOfItsLinks) {
  GroupLinks links({kMap}, {0, 1, 2, 3});
  const std::vector<GroupMessage> sent(4, message(0, 8));
  // 0 → 1 and 2 → 3 in their nodes, 1 → 2 and 3 → 0 between them.
  EXPECT_EQ(links.shift(sent, 1), (std::vector{Nanos(180), Nanos(13), Nanos(180), Nanos(13)}));
  // The next one follows: the cards are free at 80.
  EXPECT_EQ(links.shift(sent, 1)[2], Nanos(260));
  // Backwards the other ranks cross: 2 → 1 and 0 → 3.
  GroupLinks back({kMap}, {0, 1, 2, 3});
  EXPECT_EQ(back.shift(sent, -1), (std::vector{Nanos(13), Nanos(180), Nanos(13), Nanos(180)}));
}

TEST(LinkTimes, RanksOfOneCardTakeTurns) {
  LinkMap one_card = kMap;
  one_card.nics_per_node = 1;
  GroupLinks links({one_card}, {0, 1, 2, 3});
  // All cross. Rank 1 leaves first.
  const std::vector<GroupMessage> sent{message(1, 8), message(0, 8), message(0, 8), message(0, 8)};
  EXPECT_EQ(links.shift(sent, 2), (std::vector{Nanos(180), Nanos(260), Nanos(260), Nanos(180)}));
}

TEST(LinkTimes, RoutingSpreadsAMessageOverTheCardsWhereItPays) {
  GroupLinks links({kMap, true}, {0, 1, 2, 3});
  // Half of 80 bytes goes to the other rank of the node (40 + 5), 40 leave over each card (400 +
  // 100), and half is collected (40 + 5). Directly it would be 800 + 100.
  EXPECT_EQ(links.shift(std::vector<GroupMessage>(4, message(0, 80)), 1)[2], Nanos(590));
  // Where all ranks send to the other node, nothing is gained.
  GroupLinks all({kMap, true}, {0, 1, 2, 3});
  EXPECT_EQ(all.shift(std::vector<GroupMessage>(4, message(0, 80)), 2)[2], Nanos(900));
}

TEST(LinkTimes, EachGivesSomethingElseToEach) {
  GroupLinks links({kMap}, {0, 1, 2, 3});
  const auto none = [](std::int64_t sent) {
    return GroupLinks::ToEach{Nanos(sent), std::vector<Bytes>(4)};
  };
  std::vector<GroupLinks::ToEach> sent{none(0), none(7), none(0), none(0)};
  sent[0].bytes = {Bytes(1000), Bytes(6), Bytes(8), Bytes(0)};  // the first stays
  // Rank 1 gave nothing, but it is at 7.
  EXPECT_EQ(links.all_to_all(sent), (std::vector{Nanos(0), Nanos(11), Nanos(180), Nanos(0)}));
}

TEST(LinkTimes, ACollectiveUsesAllCards) {
  GroupLinks links({kMap}, {0, 1, 2, 3});
  const std::vector<GroupMessage> sent{message(0, 8), message(20, 8), message(0, 8), message(0, 8)};
  EXPECT_EQ(links.collective(sent), Nanos(20 + 100 + 80));
  EXPECT_EQ(links.collective(std::vector<GroupMessage>(4, message(300, 0))), Nanos(300));
  GroupLinks inside({kMap}, {0, 1});
  EXPECT_EQ(inside.collective(std::vector<GroupMessage>(2, message(0, 8))), Nanos(13));
}

TEST(LinkTimes, NodesReduceFirst) {
  // Each of four members sends 36 of 48 bytes: 24 to its neighbour, 12 to the other node.
  GroupLinks links({kMap}, {0, 1, 2, 3});
  const std::vector<GroupMessage> sent(4, message(0, 36));
  EXPECT_EQ(links.reduction(sent), Nanos(5 + 24 + 100 + 120));
  // Where each is alone on its node, all 36 bytes cross a card.
  GroupLinks alone({kMap}, {0, 2, 4, 6});
  EXPECT_EQ(alone.reduction(sent), Nanos(100 + 360));
  GroupLinks inside({kMap}, {0, 1});
  EXPECT_EQ(inside.reduction(std::vector<GroupMessage>(2, message(0, 8))), Nanos(13));
}

}  // namespace
}  // namespace slimpack
