// How many sends a rank may hold that have not met their receives, for lowered schedules.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "slimpack/schedule/lowered_schedule.h"
#include "tests/sim/random_step_case.h"
#include "tests/support/whole_packs.h"

namespace slimpack {
namespace {

using testing::random_step_case;
using testing::StepCase;

/// Runs lowered schedules without a clock, on devices that never synchronise. A send meets its
/// receive when both are posted; a rank with `held` sends of a direction that have met none waits
/// before the next one.
class Unclocked {
 public:
  Unclocked(const StepPlan& plan, const std::vector<LoweredSchedule>& lowered, std::size_t held)
      : plan_(plan), lowered_(lowered), held_(held), stages_(lowered.front().ranks.size()) {
    ranks_.resize(lowered.size(), std::vector<Rank>(stages_));
  }

  bool ends() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (std::size_t s = 0; s < stages_; ++s)
          while (step(r, s)) any = true;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (std::size_t s = 0; s < stages_; ++s)
        if (ranks_[r][s].next < lowered_[r].ranks[s].size()) return false;
    return true;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    std::array<std::size_t, 2> sent{}, posted{};  ///< by direction
  };

  bool step(std::size_t r, std::size_t s) {
    Rank& rank = ranks_[r][s];
    if (rank.next == lowered_[r].ranks[s].size()) return false;
    const Instruction& i = lowered_[r].ranks[s][rank.next];
    const std::size_t way = message_pass(i.action.pass) == Pass::kForward ? 0 : 1;
    switch (i.operation) {
      case Operation::kReceive:
        ++rank.posted[way];
        break;
      case Operation::kSend: {
        const std::size_t met = ranks_[r][way == 0 ? s + 1 : s - 1].posted[way];
        if (rank.sent[way] >= met + held_) return false;
        ++rank.sent[way];
        break;
      }
      case Operation::kCompute: {
        if (!all_ready(r, s, i)) return false;
        const std::size_t first = r - r % together(r, i.action);
        for (std::size_t m = first; m < first + together(r, i.action); ++m) ++ranks_[m][s].next;
        return true;
      }
    }
    ++rank.next;
    return true;
  }

  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }
  [[nodiscard]] std::size_t together(std::size_t r, const Action& action) const {
    return action.pass == Pass::kWeightGradient
               ? 1
               : static_cast<std::size_t>(pack_of(r, action).replicas);
  }

  /// Whether all replicas that run the action's pack are at it and have their inputs.
  [[nodiscard]] bool all_ready(std::size_t r, std::size_t s, const Instruction& i) const {
    const std::size_t first = r - r % together(r, i.action);
    for (std::size_t m = first; m < first + together(r, i.action); ++m) {
      const auto& list = lowered_[m].ranks[s];
      if (ranks_[m][s].next == list.size()) return false;
      const Instruction& other = list[ranks_[m][s].next];
      if (other.operation != Operation::kCompute || other.action.pass != i.action.pass ||
          pack_of(m, other.action) != pack_of(r, i.action))
        return false;
      if (!source_stage(other.action, stages_)) continue;
      const std::size_t way = other.action.pass == Pass::kForward ? 0 : 1;
      if (ranks_[m][way == 0 ? s - 1 : s + 1].sent[way] <= other.action.pack.index()) return false;
    }
    return true;
  }

  const StepPlan& plan_;
  const std::vector<LoweredSchedule>& lowered_;
  std::size_t held_, stages_;
  std::vector<std::vector<Rank>> ranks_;
};

RC_GTEST_PROP(HeldSends, MayBeFewWhereReceivesArePostedAsPlanned, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepCase c = random_step_case(rng);
  const auto lowered = lower(c.tasks(), c.schedules, c.slots);
  for (const std::size_t held : {1, 2, 8}) RC_ASSERT(Unclocked(c.plan, lowered, held).ends());
}

TEST(HeldSends, MayNotBeFewWhereReceivesArePostedLate) {
  // Stage 0 sends all forwards before it posts a receive. Stage 1 posts that of F2 once it has sent
  // B0 and B1. With one send each, stage 0 waits with F3 and stage 1 with B1.
  const StepPlan plan = testing::whole_packs(4, 2);
  const std::vector<LoweredSchedule> late{
      lowered_from_text("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,"
                        "0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3\n"
                        "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,"
                        "1RECV_F2,1RECV_F3,1F2,1B2,1SEND_B2,1F3,1B3,1SEND_B3\n",
                        "test")};
  EXPECT_FALSE(Unclocked(plan, late, 1).ends());
  EXPECT_TRUE(Unclocked(plan, late, 2).ends());
  EXPECT_FALSE(check_lowered(plan, late).empty());
}

}  // namespace
}  // namespace slimpack
