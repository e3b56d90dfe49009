// Steps: check the lists of every replica by themselves; run them without a clock as far as they
// go, and name every action that is stuck. If replicas share packs, run all of them together.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// Messages of one pass between two neighbouring stages, counted since the start.
struct Channel {
  std::size_t put = 0;
  std::size_t taken = 0;
};

struct RankRun {
  std::size_t next = 0;
  bool holds_output = false;  ///< the last action's output waits for a free slot
};

/// One replica on the way: the actions that its ranks have run, and those that may come next if no
/// other replica has to join them.
class ReplicaRun {
 public:
  ReplicaRun(const PackPlan& packs, const Schedule& schedule, std::size_t slots)
      : packs_(packs),
        schedule_(schedule),
        slots_(slots),
        spread_(std::ranges::any_of(schedule.ranks.front(), is_joint, &Action::pass)),
        partners_(schedule.exchanges),
        runs_(schedule.ranks.size()),
        forwards_(schedule.stages()),
        forward_(forwards_.size()),
        backward_(forwards_.size()) {
    std::map<SequenceId, std::size_t> forwards_of;
    for (std::size_t f = 0; f < packs.forward.size(); ++f)
      for (const Slice& slice : packs.forward[f].slices) forwards_of[slice.sequence] = f + 1;
    for (const MicroPack& pack : packs.backward) {
      std::size_t needed = 0;
      for (const Slice& slice : pack.slices) needed = std::max(needed, forwards_of[slice.sequence]);
      needed_.push_back(needed);
    }
  }

  [[nodiscard]] std::size_t ranks() const { return runs_.size(); }
  /// The rank's next action; null at its end, or where it cannot send the last one's output.
  [[nodiscard]] const Action* next(std::size_t r) const {
    const auto& actions = schedule_.ranks[r];
    return runs_[r].holds_output || runs_[r].next == actions.size() ? nullptr
                                                                    : &actions[runs_[r].next];
  }
  [[nodiscard]] bool finished(std::size_t r) const {
    return !runs_[r].holds_output && runs_[r].next == schedule_.ranks[r].size();
  }
  [[nodiscard]] const MicroPack& pack_of(const Action& action) const {
    return packs_.of(action.pass)[action.pack.index()];
  }

  /// Sends what a rank holds, if a slot is free.
  bool send(std::size_t r) {
    if (!runs_[r].holds_output) return false;
    Channel* output = output_of(last_action(r));
    if (full(*output, last_action(r))) return false;
    ++output->put;
    runs_[r].holds_output = false;
    return true;
  }

  /// Whether the action is its rank's next, with all that it needs in this replica.
  [[nodiscard]] bool ready(const Action& action) {
    const Action* own = next(own_rank(action));
    if (own == nullptr || *own != action || !can_start(action)) return false;
    if (is_joint(action.pass)) return !rank_missing(action);
    const Action* partner = partners_.of(action);
    if (partner == nullptr) return true;
    const Action* other = next(own_rank(*partner));
    return other != nullptr && *other == *partner && can_start(*partner);
  }

  /// Starts an action that is ready, and those of this replica that start with it.
  void start(const Action& action) {
    if (is_joint(action.pass)) {
      for (RankRun& run : runs_) ++run.next;
      ++joint_[joint_index(action.pass)];
      return;
    }
    if (const Action* partner = partners_.of(action)) start_alone(*partner);
    start_alone(action);
  }

  /// Tells what a rank waits for that has not finished.
  [[nodiscard]] std::string waits_for(std::size_t r) {
    if (runs_[r].holds_output) {
      const Action& sent = last_action(r);
      const std::size_t s = sent.stage.index();
      return fmt::format(
          "deadlock: stage {} cannot send the output of {}: all {} slots to stage {} are full", s,
          to_string(sent), slots_, target_stage(sent, forwards_.size())->index());
    }
    const Action& action = *next(r);
    const std::size_t s = action.pass == Pass::kHead ? forwards_.size() - 1 : action.stage.index();
    if (!rows_there(action))
      return fmt::format("deadlock: {} needs {} forwards on stage {} before it, the order has {}",
                         to_string(action), needed_[action.pack.index()], s, forwards_[s]);
    if (const std::optional<Action> before = vocabulary_missing(action))
      return fmt::format("deadlock: {} comes before {}, which it needs", to_string(action),
                         to_string(*before));
    if (const auto missing = is_joint(action.pass) ? rank_missing(action) : std::nullopt)
      return fmt::format("deadlock: {} waits for rank {}, which runs something else next",
                         to_string(action), *missing);
    if (!input_there(action))
      return fmt::format("deadlock: {} waits for the output of {}", to_string(action),
                         to_string(source_of(action)));
    if (const Action* partner = partners_.of(action); partner != nullptr && !ready(action))
      return fmt::format("deadlock: {} waits for {}, with which it exchanges attention",
                         to_string(action), to_string(*partner));
    return fmt::format("deadlock: {} waits for the other replicas of its MicroPack",
                       to_string(action));
  }

 private:
  [[nodiscard]] const Action& last_action(std::size_t r) const {
    return schedule_.ranks[r][runs_[r].next - 1];
  }
  [[nodiscard]] std::size_t own_rank(const Action& action) const {
    return static_cast<std::size_t>(schedule_.placement.rank_of(action.stage));
  }
  [[nodiscard]] std::size_t last_stage() const { return forwards_.size() - 1; }

  /// The channels that an action reads and writes. Null at the ends of the pipeline and for weight
  /// gradients.
  Channel* input_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (!passes_rows(action.pass)) return nullptr;
    if (action.pass == Pass::kForward) return s == 0 ? nullptr : &forward_[s - 1];
    return s == last_stage() ? nullptr : &backward_[s + 1];
  }
  Channel* output_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (!passes_rows(action.pass)) return nullptr;
    if (action.pass == Pass::kForward) return s == last_stage() ? nullptr : &forward_[s];
    return s == 0 ? nullptr : &backward_[s];
  }
  /// Between two stages of one rank nothing is sent, so nothing is ever full.
  [[nodiscard]] bool full(const Channel& channel, const Action& sender) const {
    const StageId target = *target_stage(sender, forwards_.size());
    return schedule_.placement.rank_of(sender.stage) != schedule_.placement.rank_of(target) &&
           channel.put - channel.taken >= slots_;
  }

  [[nodiscard]] bool input_there(const Action& action) {
    const Channel* input = input_of(action);
    return input == nullptr || input->taken < input->put;
  }
  [[nodiscard]] bool rows_there(const Action& action) const {
    if (action.pass == Pass::kHead) return forwards_.back() >= needed_[action.pack.index()];
    return !goes_back(action.pass) ||
           forwards_[action.stage.index()] >= needed_[action.pack.index()];
  }
  [[nodiscard]] bool can_start(const Action& action) {
    return input_there(action) && rows_there(action) && !vocabulary_missing(action);
  }
  /// The action that all ranks run together and that has to come before or is missing; none.
  [[nodiscard]] std::optional<Action> vocabulary_missing(const Action& action) const {
    const auto missing = [&](Pass pass) -> std::optional<Action> {
      if (!spread_ || joint_[joint_index(pass)] > action.pack.index()) return std::nullopt;
      return Action{action.stage, pass, action.pack};
    };
    if (action.pass == Pass::kForward && action.stage.index() == 0)
      return missing(Pass::kEmbedding);
    if (goes_back(action.pass) && action.stage.index() == last_stage()) return missing(Pass::kHead);
    if (action.pass == Pass::kEmbeddingGradient && first_backwards_ <= action.pack.index())
      return Action{StageId(0), Pass::kBackward, action.pack};
    return std::nullopt;
  }
  /// The rank that does not run the action next, which all ranks run together; none.
  [[nodiscard]] std::optional<std::size_t> rank_missing(const Action& action) const {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const Action* other = next(r);
      if (other == nullptr || other->pass != action.pass || other->pack != action.pack) return r;
    }
    return std::nullopt;
  }
  /// The action whose output an action needs. It may split a backward that this stage runs whole.
  [[nodiscard]] Action source_of(const Action& action) const {
    const bool forward = action.pass == Pass::kForward;
    const StageId from(action.stage.value() + (forward ? -1 : 1));
    const auto& actions = schedule_.ranks[own_rank({from, action.pass, action.pack})];
    return *std::ranges::find_if(actions, [&](const Action& other) {
      return other.stage == from && other.pack == action.pack &&
             (forward ? other.pass == Pass::kForward : goes_back(other.pass));
    });
  }

  void start_alone(const Action& action) {
    if (Channel* input = input_of(action)) ++input->taken;
    if (action.pass == Pass::kForward) ++forwards_[action.stage.index()];
    if (goes_back(action.pass) && action.stage.index() == 0) ++first_backwards_;
    RankRun& run = runs_[own_rank(action)];
    ++run.next;
    run.holds_output = output_of(action) != nullptr;
  }

  const PackPlan& packs_;
  const Schedule& schedule_;
  std::size_t slots_;
  bool spread_;  ///< the vocabulary, over the ranks
  ExchangePartners partners_;
  std::vector<RankRun> runs_;
  std::vector<std::size_t> forwards_;  ///< by stage: started
  std::vector<Channel> forward_;       ///< by sending stage
  std::vector<Channel> backward_;      ///< by sending stage
  std::vector<std::size_t> needed_;
  std::array<std::size_t, kJointPasses.size()> joint_ = {};  ///< E, H and G that all ranks have run
  std::size_t first_backwards_ = 0;                          ///< of the first stage: started
};

/// Runs the lists of all replicas in any order that the rules allow. A possible action stays
/// possible until it runs, so one exhaustive run decides.
class DryRun {
 public:
  explicit DryRun(std::vector<ReplicaRun> replicas) : replicas_(std::move(replicas)) {}

  /// A line for each rank that is stuck. Those of several replicas name the replica.
  std::vector<std::string> stuck() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < replicas_.size(); ++r)
        for (std::size_t p = 0; p < replicas_[r].ranks(); ++p)
          while (replicas_[r].send(p) || step(r, p)) moved = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < replicas_.size(); ++r)
      for (std::size_t p = 0; p < replicas_[r].ranks(); ++p)
        if (!replicas_[r].finished(p)) {
          const std::string line = replicas_[r].waits_for(p);
          lines.push_back(replicas_.size() == 1 ? line : fmt::format("replica {}: {}", r, line));
        }
    return lines;
  }

 private:
  /// Runs a rank's next action if it is ready on all replicas of its MicroPack.
  bool step(std::size_t r, std::size_t p) {
    const Action* action = replicas_[r].next(p);
    if (action == nullptr || !replicas_[r].ready(*action)) return false;
    const bool alone =
        replicas_.size() == 1 || action->pass == Pass::kWeightGradient || is_joint(action->pass);
    const MicroPack& pack = replicas_[r].pack_of(*action);
    const auto count = alone ? 1 : static_cast<std::size_t>(pack.replicas);
    const std::size_t first = r - r % count;
    for (std::size_t m = first; m < first + count; ++m) {
      const Action* other = replicas_[m].next(p);
      if (other == nullptr || other->stage != action->stage || other->pass != action->pass ||
          replicas_[m].pack_of(*other) != pack || !replicas_[m].ready(*other))
        return false;
    }
    for (std::size_t m = first; m < first + count; ++m) replicas_[m].start(*replicas_[m].next(p));
    return true;
  }

  std::vector<ReplicaRun> replicas_;
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

std::vector<std::string> check_schedule(const PackPlan& packs, const Schedule& schedule,
                                        int slots) {
  std::vector<std::string> errors = check_lists(packs, schedule, slots);
  if (!errors.empty()) return errors;
  return DryRun({{packs, schedule, static_cast<std::size_t>(slots)}}).stuck();
}

std::vector<std::string> check_step(const StepPlan& plan, std::span<const Schedule> schedules,
                                    int slots) {
  SLIMPACK_CHECK(schedules.size() == plan.replicas.size());
  std::vector<std::string> errors;
  for (std::size_t r = 0; r < schedules.size(); ++r)
    for (const std::string& line : check_schedule(plan.replicas[r].packs, schedules[r], slots))
      errors.push_back(schedules.size() == 1 ? line : fmt::format("replica {}: {}", r, line));
  if (!errors.empty()) return errors;
  std::vector<ReplicaRun> replicas;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    replicas.emplace_back(plan.replicas[r].packs, schedules[r], static_cast<std::size_t>(slots));
    if (!spread_as_planned(plan, schedules[r]))
      errors.push_back(
          fmt::format("replica {}: the plan {} the vocabulary over the pipeline, the schedule runs "
                      "{} E, H and G",
                      r, plan.layout.spread_vocabulary ? "spreads" : "does not spread",
                      plan.layout.spread_vocabulary ? "no" : "some"));
  }
  if (!errors.empty() || !any_merged(plan)) return errors;
  return DryRun(std::move(replicas)).stuck();
}

}  // namespace slimpack
