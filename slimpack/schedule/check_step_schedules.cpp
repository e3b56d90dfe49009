// Steps: check every replica by itself. If replicas share packs, run all of them together with
// unbounded time; a merged pack then starts on a stage only when it is next on all its replicas.
#include <fmt/format.h>

#include <algorithm>

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
        per_replica_(schedules.front().ranks.size()),
        stages_(schedules.front().stages()),
        ranks_(schedules.size() * per_replica_),
        stage_runs_(schedules.size() * stages_) {
    for (const ReplicaPlan& replica : plan.replicas)
      needed_.push_back(forwards_needed(replica.packs));
    for (const Schedule& schedule : schedules) partners_.emplace_back(schedule.exchanges);
  }

  std::vector<std::string> stuck() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < schedules_.size(); ++r)
        for (std::size_t p = 0; p < per_replica_; ++p)
          while (step(r, p)) any = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < schedules_.size(); ++r)
      for (std::size_t p = 0; p < per_replica_; ++p)
        if (const Action* action = next(r, p))
          lines.push_back(fmt::format("deadlock: replica {} waits on stage {} with {}", r,
                                      action->stage.value(), to_string(*action)));
    return lines;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    bool started = false;  ///< action `next` has run; its output may wait for a slot
  };
  struct StageRun {
    std::size_t begun[2] = {0, 0};  ///< actions started, by pass
    std::size_t sent[2] = {0, 0};   ///< outputs sent, by pass
  };

  /// Rank p of replica r's pipeline, and the action that is its next; null at the end.
  Rank& rank(std::size_t r, std::size_t p) { return ranks_[r * per_replica_ + p]; }
  const Action* next(std::size_t r, std::size_t p) {
    const auto& actions = schedules_[r].ranks[p];
    return rank(r, p).next == actions.size() ? nullptr : &actions[rank(r, p).next];
  }
  [[nodiscard]] std::size_t own_rank(std::size_t r, const Action& action) const {
    return static_cast<std::size_t>(schedules_[r].placement.rank_of(action.stage));
  }
  StageRun& run_of(std::size_t r, std::size_t s) { return stage_runs_[r * stages_ + s]; }
  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }

  bool input_there(std::size_t r, const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    const std::size_t s = action.stage.index();
    if (!forward &&
        run_of(r, s).begun[0] < static_cast<std::size_t>(needed_[r][action.pack.index()]))
      return false;
    if (s == (forward ? 0 : stages_ - 1)) return true;
    return run_of(r, forward ? s - 1 : s + 1).sent[forward ? 0 : 1] > action.pack.index();
  }

  /// Whether the action is next on every replica of its pack and has its input there.
  bool company_there(std::size_t r, std::size_t p, const Action& action) {
    const MicroPack& pack = pack_of(r, action);
    const auto count = static_cast<std::size_t>(pack.replicas);
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
      const Action* other = next(m, p);
      if (rank(m, p).started || other == nullptr) return false;
      if (other->stage != action.stage || other->pass != action.pass ||
          pack_of(m, *other) != pack || !input_there(m, *other))
        return false;
    }
    return true;
  }

  /// The partner with which the action exchanges attention, if the partner is next on its rank,
  /// too; the action itself if it has no partner; null if it has to wait.
  const Action* partner_there(std::size_t r, const Action& action) {
    const Action* partner = partners_[r].of(action);
    if (partner == nullptr) return &action;
    const std::size_t p = own_rank(r, *partner);
    const Action* other = next(r, p);
    const bool there =
        other != nullptr && *other == *partner && !rank(r, p).started && input_there(r, *other);
    return there ? partner : nullptr;
  }

  void begin(std::size_t r, const Action& action) {
    rank(r, own_rank(r, action)).started = true;
    ++run_of(r, action.stage.index()).begun[action.pass == Pass::kForward ? 0 : 1];
  }

  bool slot_free(std::size_t r, const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    const std::size_t s = action.stage.index();
    if (s == (forward ? stages_ - 1 : 0)) return true;
    return action.pack.index() < run_of(r, forward ? s + 1 : s - 1).begun[forward ? 0 : 1] + slots_;
  }

  /// Runs an action of all ranks of a replica if it is next on all of them.
  bool step_together(std::size_t r, const Action& action) {
    for (std::size_t p = 0; p < per_replica_; ++p) {
      const Action* other = next(r, p);
      if (other == nullptr || rank(r, p).started || other->pass != action.pass ||
          other->pack != action.pack)
        return false;
    }
    for (std::size_t p = 0; p < per_replica_; ++p) ++rank(r, p).next;
    return true;
  }

  bool step(std::size_t r, std::size_t p) {
    Rank& own = rank(r, p);
    const Action* action = next(r, p);
    if (action == nullptr) return false;
    if (action->pass == Pass::kWeightGradient) return ++own.next, true;
    if (is_joint(action->pass)) return step_together(r, *action);
    const std::size_t pass = action->pass == Pass::kForward ? 0 : 1;
    const std::size_t s = action->stage.index();
    if (!own.started) {
      if (!input_there(r, *action) || !company_there(r, p, *action)) return false;
      const Action* partner = partner_there(r, *action);
      if (partner == nullptr) return false;
      if (partner != action) begin(r, *partner);
      const auto count = static_cast<std::size_t>(pack_of(r, *action).replicas);
      for (std::size_t m = r - r % count; m < r - r % count + count; ++m) begin(m, *action);
    }
    if (!slot_free(r, *action)) return false;
    own.started = false;
    ++run_of(r, s).sent[pass];
    ++own.next;
    return true;
  }

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  std::size_t slots_;
  std::size_t per_replica_;  ///< ranks of a pipeline
  std::size_t stages_;
  std::vector<Rank> ranks_;
  std::vector<StageRun> stage_runs_;
  std::vector<std::vector<std::int32_t>> needed_;
  std::vector<ExchangePartners> partners_;  ///< by replica
};

/// Whether the first rank runs E, H and G as the layout has it. Without packs nobody runs any.
bool spread_as_planned(const StepPlan& plan, const Schedule& schedule) {
  const auto& first = schedule.ranks.front();
  return first.empty() ||
         plan.layout.spread_vocabulary == std::ranges::any_of(first, is_joint, &Action::pass);
}

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
  if (!errors.empty()) return errors;
  for (std::size_t r = 0; r < schedules.size(); ++r)
    if (!spread_as_planned(plan, schedules[r]))
      errors.push_back(
          fmt::format("replica {}: the plan {} the vocabulary over the pipeline, the schedule runs "
                      "{} E, H and G",
                      r, plan.layout.spread_vocabulary ? "spreads" : "does not spread",
                      plan.layout.spread_vocabulary ? "no" : "some"));
  if (!errors.empty() || !any_merged(plan)) return errors;
  return JointRun(plan, schedules, slots).stuck();
}

}  // namespace slimpack
