#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/schedule/lowered_schedule.h"
#include "tests/support/expect_error.h"
#include "tests/support/whole_packs.h"

namespace slimpack {
namespace {

using testing::whole_packs;

std::string findings(int packs, const std::string& text, int slots = kChannelSlots) {
  const std::vector<LoweredSchedule> lowered{lowered_from_text(text, "test")};
  const auto stages = static_cast<std::int32_t>(lowered.front().ranks.size());
  std::string all;
  for (const std::string& line : check_lowered(whole_packs(packs, stages), lowered, slots))
    all += line + "\n";
  return all;
}

const std::string kFirst = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n";
const std::string kSecond = "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";

TEST(CheckLowered, AcceptsReceivesThatNeedNoUnfinishedActionOfTheirRank) {
  EXPECT_EQ(findings(2, kFirst + kSecond), "");
  // B0 needs F0 on stage 0 and nothing after it, unless stage 1 awaits F1 before.
  const std::string early = "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1\n";
  EXPECT_EQ(findings(2, early + "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"), "");
  EXPECT_NE(findings(2, early + kSecond), "");
}

TEST(CheckLowered, RefusesReceivesThatArePostedAtTheBeginning) {
  // A runtime that posts both directions ahead lowers a schedule in this way: F0 may synchronise
  // its device, which waits for B0, which waits for F0.
  EXPECT_EQ(findings(2, "0RECV_B0,0F0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B1,0B1\n" + kSecond),
            "deadlock: replica 0 waits on stage 0 with 0F0 for the receive of B0, which has not "
            "been sent\n"
            "deadlock: replica 0 waits on stage 1 with 1F0 for the receive of F0, which has not "
            "been sent\n");
}

TEST(CheckLowered, RefusesSendsWhoseReceivesWaitForALaterActionOfTheirRank) {
  // F2 may synchronise its device, which waits until F1 meets its receive. Stage 1 posts that after
  // W0, which waits until B0 meets its own; stage 0 posts that after F2.
  const std::string first =
      "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n";
  const std::string end = "1B1,1SEND_B1,1F2,1B2,1SEND_B2\n";
  EXPECT_EQ(findings(3, first + "1RECV_F0,1F0,1RECV_F1,1RECV_F2,1I0,1SEND_B0,1W0,1F1," + end), "");
  EXPECT_EQ(
      findings(3, first + "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1RECV_F2," + end),
      "deadlock: replica 0 waits on stage 0 with 0F2 for the send of F1, whose receive is not "
      "posted\n"
      "deadlock: replica 0 waits on stage 1 with 1W0 for the send of B0, whose receive is not "
      "posted\n");
}

TEST(CheckLowered, RefusesReceivesWhoseMemoryMayHaveToBeFreedFirst) {
  // RECV_F1 allocates, which may synchronise: that waits for B0, which needs SEND_F0 behind it.
  EXPECT_EQ(
      findings(2, "0F0,0RECV_B0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B1,0B1\n" + kSecond),
      "deadlock: replica 0 waits on stage 0 with 0SEND_F0 for the receive of B0, which has not "
      "been sent\n"
      "deadlock: replica 0 waits on stage 1 with 1F0 for the receive of F0, which has not been "
      "sent\n");
  // RECV_B0 waits until F2 meets its receive. Stage 1 posts that after W0, which waits for RECV_B0.
  const std::string three =
      "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n";
  EXPECT_EQ(
      findings(3, three + "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1W0,1F1,1RECV_F2,1B1,1SEND_B1,"
                          "1F2,1B2,1SEND_B2\n"),
      "deadlock: replica 0 waits on stage 0 with 0RECV_B0 for the send of F2, whose receive "
      "is not posted\n"
      "deadlock: replica 0 waits on stage 1 with 1W0 for the send of B0, whose receive is not "
      "posted\n");
}

TEST(CheckLowered, NamesEveryBrokenRuleOfAList) {
  EXPECT_EQ(findings(2, kFirst + "1RECV_F1,1F0,1RECV_F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            "1RECV_F1 is posted where pack 0 of its direction comes next\n"
            "1RECV_F0 is posted where pack 1 of its direction comes next\n");
  EXPECT_EQ(findings(2, kFirst + "1F0,1RECV_F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            "1F0 begins before the receive of its input is posted\n");
  EXPECT_EQ(findings(2, "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n" + kSecond),
            "0F1 begins before 0F0 has sent its output\n"
            "0SEND_F0 does not follow the action whose output it sends\n"
            "0SEND_F1 does not follow the action whose output it sends\n");
  EXPECT_EQ(findings(2, kFirst + "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1\n"),
            "1B1 has no send of its output\n");
  EXPECT_EQ(findings(2, kFirst + "1RECV_F0,1F0,1RECV_F1,1RECV_F2,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            "a rank posts 3 forward receives, its actions use 2\n");
  EXPECT_EQ(findings(1, "0F0,0RECV_F0,0B0\n"),
            "0RECV_F0: no other rank sends this\n"
            "a rank posts 1 forward receives, its actions use 0\n");
  EXPECT_EQ(findings(2, kFirst + "1RECV_F0,1F0,1B0,1SEND_B0\n"),
            "stage 1 runs 1 of 2 forward packs\nstage 1 runs 1 of 2 backward packs\n");
}

TEST(CheckLowered, CountsReceivesThatNoActionHasBegunToUse) {
  // One slot, and one message more while an action runs.
  EXPECT_EQ(
      findings(3,
               "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2"
               "\n1RECV_F0,1RECV_F1,1RECV_F2,1F0,1F1,1F2,1B0,1SEND_B0,1B1,1SEND_B1,1B2,"
               "1SEND_B2\n",
               1),
      "1RECV_F2 is posted while 2 receives before it wait for their actions, at most 1 may\n");
}

TEST(CheckLowered, KnowsTheTextOfEveryInstruction) {
  EXPECT_EQ(lowered_to_text(lowered_from_text(kFirst + kSecond, "test")), kFirst + kSecond);
  const auto refused = [](const char* text, const char* message) {
    expect_invalid_input([&] { static_cast<void>(lowered_from_text(text, "file")); }, {message});
  };
  refused("0RECV_I0\n", "file: line 1, cell 1: \"0RECV_I0\" is no instruction");
  refused("0F0\n0SEND_F0\n", "file: line 2, cell 1: 0SEND_F0 belongs to stage 0");
}

}  // namespace
}  // namespace slimpack
