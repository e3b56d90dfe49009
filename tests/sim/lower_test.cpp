#include "slimpack/schedule/lowered_schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/sim/expect_starts.h"
#include "tests/sim/random_step_case.h"
#include "tests/support/whole_packs.h"

namespace slimpack {
namespace {

using testing::random_step_case;
using testing::StepCase;
using testing::whole_packs;

std::string lowered_text(const StepPlan& plan, const char* schedule) {
  const std::vector<Schedule> schedules{schedule_from_text(schedule, "test")};
  return lowered_to_text(lower(plan, schedules).front());
}

TEST(Lower, PostsAReceiveBeforeTheActionThatRunsWhenTheMessageLeaves) {
  // Forwards take 1, backwards 2. F1 leaves stage 0 at 2, when F0 on stage 1 ends: so its receive
  // is posted before F0. B0 leaves stage 1 at 4, when stage 0 has nothing else to run.
  EXPECT_EQ(lowered_text(whole_packs(2, 2), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(Lower, KeepsMessagesInTheNameOfBackwardsThatAreSplit) {
  EXPECT_EQ(lowered_text(whole_packs(1, 2), "0F0,0B0\n1F0,1I0,1W0\n"),
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST(Lower, HasNoMessagesOnOneStage) {
  EXPECT_EQ(lowered_text(whole_packs(2, 1), "0F0,0F1,0B0,0B1\n"), "0F0,0F1,0B0,0B1\n");
}

RC_GTEST_PROP(Lower, GivesWhatTheCheckAcceptsInTheSameOrder, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  const auto lowered = lower(c.tasks(), c.schedules, c.slots);
  RC_ASSERT(check_lowered(c.plan, lowered, c.slots) == std::vector<std::string>{});
  for (std::size_t r = 0; r < lowered.size(); ++r)
    RC_ASSERT(actions_of(lowered[r]) == c.schedules[r]);
}

RC_GTEST_PROP(Lower, GivesWhatTheCheckAcceptsWithoutCosts, (std::uint64_t seed)) {
  Rng rng(seed);
  StepCase c = random_step_case(seed);
  c.schedules = testing::RandomOrders(rng, c.plan, kChannelSlots).draw();
  RC_ASSERT(check_lowered(c.plan, lower(c.plan, c.schedules)) == std::vector<std::string>{});
}

TEST(Lower, LetsNothingComeBetweenReplicasOfAMergedPackThatEndAtOnce) {
  // Other events end at the same time as merged actions on two stages. Between the replicas of
  // these, each of the two would wait for a receive whose message the other has yet to make.
  Rng rng(2193274875);
  StepCase c = random_step_case(rng);
  c.schedules = testing::RandomOrders(rng, c.plan, kChannelSlots).draw();
  EXPECT_EQ(check_lowered(c.plan, lower(c.plan, c.schedules)), std::vector<std::string>{});
}

RC_GTEST_PROP(Lower, DoesNotDelayAnyAction, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  testing::expect_starts(c, c.simulated(true).timeline, lower(c.tasks(), c.schedules, c.slots));
}

/// Instructions of one rank.
using List = std::vector<Instruction>;

List::iterator find(List& list, Operation operation, Pass pass, std::int32_t pack) {
  return std::ranges::find_if(list, [&](const Instruction& i) {
    return i.operation == operation && message_pass(i.action.pass) == pass &&
           i.action.pack == PackId(pack);
  });
}

/// The first backward receive stands before a forward that its message depends on.
bool post_too_early(List& list, const PackPlan& packs) {
  const auto receive = find(list, Operation::kReceive, Pass::kBackward, 0);
  if (receive == list.end()) return false;
  const std::int32_t needed = forwards_needed(packs).front();
  std::rotate(find(list, Operation::kCompute, Pass::kForward, needed - 1), receive, receive + 1);
  return true;
}

bool swap_receives(List& list, Pass pass) {
  const auto second = find(list, Operation::kReceive, pass, 1);
  if (second == list.end()) return false;
  std::iter_swap(find(list, Operation::kReceive, pass, 0), second);
  return true;
}

/// All forward receives stand at the beginning.
bool post_too_many(List& list, int slots) {
  const auto receives = std::ranges::stable_partition(list, [](const Instruction& i) {
    return i.operation == Operation::kReceive && i.action.pass == Pass::kForward;
  });
  return receives.begin() - list.begin() > slots + 1;
}

/// A message is missing, or there twice.
bool miscount(Rng& rng, List& list) {
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(rng.below(list.size()));
  if (at->operation == Operation::kCompute) return false;
  if (rng.below(2) == 0)
    list.erase(at);
  else
    list.insert(at, Instruction(*at));
  return true;
}

bool send_too_late(List& list) {
  const auto send = std::ranges::find(list, Operation::kSend, &Instruction::operation);
  const auto next = std::find_if(
      send, list.end(), [](const Instruction& i) { return i.operation == Operation::kCompute; });
  if (next == list.end()) return false;
  std::rotate(send, send + 1, next + 1);
  return true;
}

/// Makes one mistake; false = the list has no place for it.
bool spoil(Rng& rng, List& list, const PackPlan& packs, int slots) {
  if (list.empty()) return false;
  switch (rng.below(5)) {
    case 0:
      return post_too_early(list, packs);
    case 1:
      return swap_receives(list, rng.below(2) == 0 ? Pass::kForward : Pass::kBackward);
    case 2:
      return post_too_many(list, slots);
    case 3:
      return miscount(rng, list);
    default:
      return send_too_late(list);
  }
}

TEST(CheckLowered, RefusesAThousandRandomMistakes) {
  int refused = 0;
  for (std::uint64_t seed = 0; refused < 1000; ++seed) {
    Rng rng(seed);
    const StepCase c = random_step_case(seed);
    auto lowered = lower(c.tasks(), c.schedules, c.slots);
    const std::size_t r = rng.below(lowered.size());
    List& list = lowered[r].ranks[rng.below(c.ranks())];
    if (!spoil(rng, list, c.plan.replicas[r].packs, c.slots)) continue;
    ASSERT_FALSE(check_lowered(c.plan, lowered, c.slots).empty()) << "seed " << seed << "\n"
                                                                  << lowered_to_text(lowered[r]);
    ++refused;
  }
}

TEST(WaitGraph, LetsAMessageTravelOnceItsReceiveIsPosted) {
  // F1 leaves stage 0 at 2 and travels 10. Posted before F0, as lower() does, it arrives at 12;
  // posted after B0, which ends at 1 + 10 + 1 + 2 = 14, it arrives at 24.
  StepPlan plan = whole_packs(2, 2);
  const std::vector<Schedule> schedules{
      schedule_from_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "test")};
  Rng rng(1);
  std::vector<TaskTimes> times = testing::random_step_times(rng, plan);
  for (auto& stage : times.front().forward) stage.assign(2, Nanos(1));
  for (auto& stage : times.front().backward) stage.assign(2, Nanos(2));
  times.front().forward_transfer.assign(2, Nanos(10));
  const auto start_of_second = [&](const char* second_stage) {
    const std::vector<LoweredSchedule> lowered{lowered_from_text(
        std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n") + second_stage,
        "test")};
    return testing::WaitGraph(plan, schedules, times, kChannelSlots, lowered)
        .start(0, {StageId(1), Pass::kForward, PackId(1)});
  };
  EXPECT_EQ(start_of_second("1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"), 14);
  EXPECT_EQ(start_of_second("1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"), 24);
}

}  // namespace
}  // namespace slimpack
