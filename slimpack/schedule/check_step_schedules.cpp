// Steps: check every replica by itself. If replicas share packs, run all of them together with
// unbounded time; a merged pack then starts on a stage only when it is next on all its replicas.
#include <fmt/format.h>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

class JointRun {
 public:
  JointRun(const StepPlan& plan, std::span<const Schedule> schedules, int slots)
      : plan_(plan),
        schedules_(schedules),
        slots_(static_cast<std::size_t>(slots)),
        stages_(schedules.front().stages.size()),
        ranks_(schedules.size() * stages_) {
    for (const ReplicaPlan& replica : plan.replicas)
      needed_.push_back(forwards_needed(replica.packs));
  }

  std::vector<std::string> stuck() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < schedules_.size(); ++r)
        for (std::size_t s = 0; s < stages_; ++s)
          while (step(r, s)) any = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < schedules_.size(); ++r)
      for (std::size_t s = 0; s < stages_; ++s)
        if (rank(r, s).next < schedules_[r].stages[s].size())
          lines.push_back(fmt::format("deadlock: replica {} waits on stage {} with {}", r, s,
                                      to_string(schedules_[r].stages[s][rank(r, s).next])));
    return lines;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    bool started = false;           ///< action `next` has run; its output may wait for a slot
    std::size_t begun[2] = {0, 0};  ///< actions started, by pass
    std::size_t sent[2] = {0, 0};   ///< outputs sent, by pass
  };

  Rank& rank(std::size_t r, std::size_t s) { return ranks_[r * stages_ + s]; }
  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }

  bool input_there(std::size_t r, std::size_t s, const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    if (!forward && rank(r, s).begun[0] < static_cast<std::size_t>(needed_[r][action.pack.index()]))
      return false;
    if (s == (forward ? 0 : stages_ - 1)) return true;
    return rank(r, forward ? s - 1 : s + 1).sent[forward ? 0 : 1] > action.pack.index();
  }

  /// Whether the action is next on every replica of its pack and has its input there.
  bool company_there(std::size_t r, std::size_t s, const Action& action) {
    const MicroPack& pack = pack_of(r, action);
    const auto count = static_cast<std::size_t>(pack.replicas);
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
      if (rank(m, s).started) return false;
      if (rank(m, s).next == schedules_[m].stages[s].size()) return false;
      const Action& other = schedules_[m].stages[s][rank(m, s).next];
      if (other.pass != action.pass || pack_of(m, other) != pack || !input_there(m, s, other))
        return false;
    }
    return true;
  }

  bool slot_free(std::size_t r, std::size_t s, const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    if (s == (forward ? stages_ - 1 : 0)) return true;
    return action.pack.index() < rank(r, forward ? s + 1 : s - 1).begun[forward ? 0 : 1] + slots_;
  }

  bool step(std::size_t r, std::size_t s) {
    Rank& own = rank(r, s);
    if (own.next == schedules_[r].stages[s].size()) return false;
    const Action action = schedules_[r].stages[s][own.next];
    if (action.pass == Pass::kWeightGradient) return ++own.next, true;
    const std::size_t pass = action.pass == Pass::kForward ? 0 : 1;
    if (!own.started) {
      if (!input_there(r, s, action) || !company_there(r, s, action)) return false;
      const auto count = static_cast<std::size_t>(pack_of(r, action).replicas);
      for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
        rank(m, s).started = true;
        ++rank(m, s).begun[pass];
      }
    }
    if (!slot_free(r, s, action)) return false;
    own.started = false;
    ++own.sent[pass];
    ++own.next;
    return true;
  }

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  std::size_t slots_;
  std::size_t stages_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::int32_t>> needed_;
};

bool any_merged(const StepPlan& plan) {
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      if (pack.replicas > 1) return true;
  return false;
}

}  // namespace

std::vector<std::string> check_step_schedules(const StepPlan& plan,
                                              std::span<const Schedule> schedules, int slots) {
  SLIMPACK_CHECK(schedules.size() == plan.replicas.size());
  std::vector<std::string> errors;
  for (std::size_t r = 0; r < schedules.size(); ++r)
    for (const std::string& line : check_schedule(plan.replicas[r].packs, schedules[r], slots))
      errors.push_back(schedules.size() == 1 ? line : fmt::format("replica {}: {}", r, line));
  if (!errors.empty() || !any_merged(plan)) return errors;
  return JointRun(plan, schedules, slots).stuck();
}

}  // namespace slimpack
