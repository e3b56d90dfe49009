// Steps: check the contents of each rank's list, and what all ranks run together; then run the
// lists without a clock as far as they go, and name every action that is stuck.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

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

/// Runs the lists in any order that the rules allow. A possible action stays possible until it
/// runs, so one exhaustive run decides.
class DryRun {
 public:
  DryRun(const PackPlan& packs, const Schedule& schedule, std::size_t slots)
      : schedule_(schedule),
        slots_(slots),
        stages_(schedule.stages()),
        spread_(std::ranges::any_of(schedule.ranks.front(), is_joint, &Action::pass)),
        partners_(schedule.exchanges),
        runs_(schedule.ranks.size()),
        forwards_(stages_),
        forward_(stages_),
        backward_(stages_) {
    std::map<SequenceId, std::size_t> forwards_of;
    for (std::size_t f = 0; f < packs.forward.size(); ++f)
      for (const Slice& slice : packs.forward[f].slices) forwards_of[slice.sequence] = f + 1;
    for (const MicroPack& pack : packs.backward) {
      std::size_t needed = 0;
      for (const Slice& slice : pack.slices) needed = std::max(needed, forwards_of[slice.sequence]);
      needed_.push_back(needed);
    }
  }

  std::vector<std::string> stuck() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < runs_.size(); ++r)
        while (step(r)) moved = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < runs_.size(); ++r)
      if (runs_[r].holds_output || runs_[r].next < schedule_.ranks[r].size())
        lines.push_back(waits_for(r));
    return lines;
  }

 private:
  [[nodiscard]] const Action& last_action(std::size_t r) const {
    return schedule_.ranks[r][runs_[r].next - 1];
  }
  /// The channels that an action reads and writes. Null at the ends of the pipeline and for weight
  /// gradients.
  Channel* input_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kWeightGradient || is_joint(action.pass)) return nullptr;
    if (action.pass == Pass::kForward) return s == 0 ? nullptr : &forward_[s - 1];
    return s + 1 == stages_ ? nullptr : &backward_[s + 1];
  }
  Channel* output_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kWeightGradient || is_joint(action.pass)) return nullptr;
    if (action.pass == Pass::kForward) return s + 1 == stages_ ? nullptr : &forward_[s];
    return s == 0 ? nullptr : &backward_[s];
  }
  [[nodiscard]] bool rows_there(const Action& action) const {
    if (action.pass == Pass::kHead) return forwards_.back() >= needed_[action.pack.index()];
    return !goes_back(action.pass) ||
           forwards_[action.stage.index()] >= needed_[action.pack.index()];
  }
  /// The action that all ranks run together and that has to come before or is missing; none.
  [[nodiscard]] std::optional<Action> vocabulary_missing(const Action& action) const {
    const auto missing = [&](Pass pass, std::size_t done) -> std::optional<Action> {
      if (!spread_ || done > action.pack.index()) return std::nullopt;
      return Action{action.stage, pass, action.pack};
    };
    if (action.pass == Pass::kForward && action.stage.index() == 0)
      return missing(Pass::kEmbedding, joint_[joint_index(Pass::kEmbedding)]);
    if (goes_back(action.pass) && action.stage.index() + 1 == stages_)
      return missing(Pass::kHead, joint_[joint_index(Pass::kHead)]);
    if (action.pass == Pass::kEmbeddingGradient && first_backwards_ <= action.pack.index())
      return Action{StageId(0), Pass::kBackward, action.pack};
    return std::nullopt;
  }
  /// The rank that does not run the action next, which all ranks run together; none.
  [[nodiscard]] std::optional<std::size_t> rank_missing(const Action& action) const {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const auto& actions = schedule_.ranks[r];
      if (runs_[r].holds_output || runs_[r].next == actions.size()) return r;
      const Action& other = actions[runs_[r].next];
      if (other.pass != action.pass || other.pack != action.pack) return r;
    }
    return std::nullopt;
  }

  bool step_together(const Action& action) {
    if (rank_missing(action)) return false;
    for (RankRun& run : runs_) ++run.next;
    ++joint_[joint_index(action.pass)];
    return true;
  }

  bool step(std::size_t r) {
    RankRun& run = runs_[r];
    if (run.holds_output) {
      Channel* output = output_of(last_action(r));
      if (output->put - output->taken >= slots_) return false;
      ++output->put;
      run.holds_output = false;
      return true;
    }
    if (run.next == schedule_.ranks[r].size()) return false;
    const Action& action = schedule_.ranks[r][run.next];
    if (!can_start(action)) return false;
    if (is_joint(action.pass)) return step_together(action);
    const Action* partner = partners_.of(action);
    if (partner != nullptr && !is_next(*partner)) return false;
    if (partner != nullptr) start(*partner);
    start(action);
    return true;
  }

  [[nodiscard]] std::size_t own_rank(const Action& action) const {
    return static_cast<std::size_t>(schedule_.placement.rank_of(action.stage));
  }
  /// Whether the action is its rank's next and can start.
  bool is_next(const Action& action) {
    const std::size_t r = own_rank(action);
    const RankRun& run = runs_[r];
    return !run.holds_output && run.next < schedule_.ranks[r].size() &&
           schedule_.ranks[r][run.next] == action && can_start(action);
  }
  bool can_start(const Action& action) {
    const Channel* input = input_of(action);
    return (input == nullptr || input->taken < input->put) && rows_there(action) &&
           !vocabulary_missing(action);
  }
  void start(const Action& action) {
    if (Channel* input = input_of(action)) ++input->taken;
    if (action.pass == Pass::kForward) ++forwards_[action.stage.index()];
    if (goes_back(action.pass) && action.stage.index() == 0) ++first_backwards_;
    RankRun& run = runs_[own_rank(action)];
    ++run.next;
    run.holds_output = output_of(action) != nullptr;
  }

  std::string waits_for(std::size_t r) {
    if (runs_[r].holds_output) {
      const Action& sent = last_action(r);
      const std::size_t s = sent.stage.index();
      return fmt::format(
          "deadlock: stage {} cannot send the output of {}: all {} slots to stage {} "
          "are full",
          s, to_string(sent), slots_, sent.pass == Pass::kForward ? s + 1 : s - 1);
    }
    const Action& action = schedule_.ranks[r][runs_[r].next];
    const std::size_t s = action.pass == Pass::kHead ? stages_ - 1 : action.stage.index();
    if (!rows_there(action))
      return fmt::format("deadlock: {} needs {} forwards on stage {} before it, the order has {}",
                         to_string(action), needed_[action.pack.index()], s, forwards_[s]);
    if (const std::optional<Action> before = vocabulary_missing(action))
      return fmt::format("deadlock: {} comes before {}, which it needs", to_string(action),
                         to_string(*before));
    if (is_joint(action.pass))
      return fmt::format("deadlock: {} waits for rank {}, which runs something else next",
                         to_string(action), *rank_missing(action));
    if (const Action* partner = partners_.of(action); partner != nullptr && can_start(action))
      return fmt::format("deadlock: {} waits for {}, with which it exchanges attention",
                         to_string(action), to_string(*partner));
    const bool forward = action.pass == Pass::kForward;
    const StageId from(forward ? s - 1 : s + 1);
    const auto& actions =
        schedule_.ranks[static_cast<std::size_t>(schedule_.placement.rank_of(from))];
    // The neighbour may split a backward that this stage runs whole.
    const auto source = std::find_if(actions.begin(), actions.end(), [&](const Action& other) {
      return other.stage == from && other.pack == action.pack &&
             (forward ? other.pass == Pass::kForward : goes_back(other.pass));
    });
    return fmt::format("deadlock: {} waits for the output of {}", to_string(action),
                       to_string(*source));
  }

  const Schedule& schedule_;
  std::size_t slots_;
  std::size_t stages_;
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

/// Checks the actions of one stage. Every line names one action and its mistake.
class ListCheck {
 public:
  ListCheck(const PackPlan& packs, std::size_t stage, std::vector<std::string>& errors)
      : stage_(stage), total_{packs.forward.size(), packs.backward.size()}, errors_(errors) {}

  void add(const Action& action) {
    if (action.pass == Pass::kWeightGradient)
      add_weight(action);
    else
      add_pack(action);
  }

  void end() {
    for (const std::size_t way : {0, 1})
      if (next_[way] < total_[way])
        errors_.push_back(fmt::format("stage {} runs {} of {} {} packs", stage_, next_[way],
                                      total_[way], way == 0 ? "forward" : "backward"));
    if (next_weight_ < split_.size())
      errors_.push_back(fmt::format("stage {} runs {} of {} weight gradients that were put off",
                                    stage_, next_weight_, split_.size()));
  }

 private:
  void add_pack(const Action& action) {
    const std::size_t way = action.pass == Pass::kForward ? 0 : 1;
    if (action.pack != PackId(next_[way]) || next_[way] == total_[way])
      errors_.push_back(fmt::format("stage {} lists {} where pack {} of {} comes next", stage_,
                                    to_string(action), next_[way], total_[way]));
    ++next_[way];
    if (action.pass == Pass::kInputGradient) split_.push_back(action.pack);
  }

  void add_weight(const Action& action) {
    if (next_weight_ == split_.size())
      errors_.push_back(fmt::format("stage {} lists {} where no weight gradients are put off",
                                    stage_, to_string(action)));
    else if (const PackId next = split_[next_weight_++]; action.pack != next)
      errors_.push_back(fmt::format("stage {} lists {} where W{} comes next", stage_,
                                    to_string(action), next.value()));
  }

  std::size_t stage_;
  std::size_t total_[2];
  std::size_t next_[2] = {0, 0};  ///< by way: forward, backward
  std::vector<PackId> split_;
  std::size_t next_weight_ = 0;  ///< of split_
  std::vector<std::string>& errors_;
};

std::vector<Action> joint_actions(const std::vector<Action>& actions) {
  std::vector<Action> joint;
  std::ranges::copy_if(actions, std::back_inserter(joint), is_joint, &Action::pass);
  return joint;
}

/// Checks what all ranks run together: on the first rank, then whether the others run the same.
void check_joint(const PackPlan& packs, const Schedule& schedule,
                 std::vector<std::string>& errors) {
  const std::vector<Action> first = joint_actions(schedule.ranks.front());
  for (const Pass pass : kJointPasses) {
    std::size_t next = 0;
    for (const Action& action : first) {
      if (action.pass != pass) continue;
      if (action.pack != PackId(next))
        errors.push_back(
            fmt::format("rank 0 lists {} where pack {} comes next", to_string(action), next));
      ++next;
    }
    if (!first.empty() && next != packs.of(pass).size())
      errors.push_back(fmt::format("rank 0 runs {} of {} {}", next, packs.of(pass).size(),
                                   "EHG"[joint_index(pass)]));
  }
  for (std::size_t r = 1; r < schedule.ranks.size(); ++r)
    if (!std::ranges::equal(
            joint_actions(schedule.ranks[r]), first,
            [](const Action& a, const Action& b) { return a.pass == b.pass && a.pack == b.pack; }))
      errors.push_back(fmt::format("rank {} runs E, H and G in another order than rank 0", r));
}

/// Checks the exchanges by themselves, and that each of their actions is in a list.
class ExchangeCheck {
 public:
  ExchangeCheck(const PackPlan& packs, const Schedule& schedule, std::vector<std::string>& errors)
      : packs_(packs), placement_(schedule.placement), errors_(errors) {
    for (const auto& actions : schedule.ranks) listed_.insert(actions.begin(), actions.end());
  }

  void add(const ContextExchange& exchange) {
    const Action& giver = exchange.giver;
    const Action& taker = exchange.taker;
    for (const Action& end : {giver, taker})
      if (!check_end(end)) return;
    if (giver.pass != taker.pass ||
        placement_.rank_of(giver.stage) == placement_.rank_of(taker.stage))
      return error("{} and {} exchange attention, but are not of one pass on two ranks",
                   to_string(giver), to_string(taker));
    const MicroPack& pack = pack_of(giver);
    const Tokens prefix = pack.slices[exchanged_slice(pack)].prefix();
    if (exchange.keys < Tokens(1) || exchange.keys > prefix)
      error("{} gives {} keys away, its longest prefix has {}", to_string(giver),
            exchange.keys.count(), prefix.count());
  }

 private:
  template <class... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) {
    errors_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] const MicroPack& pack_of(const Action& action) const {
    return packs_.of(action.pass)[action.pack.index()];
  }
  bool check_end(const Action& end) {
    const bool attends = end.pass == Pass::kForward || goes_back(end.pass);
    if (!attends || !listed_.contains(end))
      error("{} exchanges attention, but is no F, B or I of the schedule", to_string(end));
    else if (pack_of(end).replicas > 1)
      error("{} exchanges attention, but its MicroPack is merged", to_string(end));
    else if (!ends_.insert(end).second)
      error("{} is in two exchanges", to_string(end));
    else
      return true;
    return false;
  }

  const PackPlan& packs_;
  const StagePlacement& placement_;
  std::vector<std::string>& errors_;
  std::set<Action> listed_, ends_;
};

void check_lists(const PackPlan& packs, const Schedule& schedule,
                 std::vector<std::string>& errors) {
  const StagePlacement& placement = schedule.placement;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    const std::vector<StageId> own = placement.stages_of(rank);
    std::vector<ListCheck> checks;
    for (const StageId s : own) checks.emplace_back(packs, s.index(), errors);
    for (const Action& action : schedule.ranks[r]) {
      if (errors.size() >= kMostCheckLines) return;
      if (action.stage.index() >= schedule.stages() || placement.rank_of(action.stage) != rank)
        errors.push_back(fmt::format("rank {} lists {}", r, to_string(action)));
      else if (!is_joint(action.pass))
        checks[static_cast<std::size_t>(placement.local_stage(action.stage))].add(action);
      else if (action.stage != own.front())
        errors.push_back(fmt::format("rank {} lists {} for its stage {}", r, to_string(action),
                                     own.front().value()));
    }
    for (ListCheck& check : checks) check.end();
  }
}

}  // namespace

std::vector<std::string> check_schedule(const PackPlan& packs, const Schedule& schedule,
                                        int slots) {
  std::vector<std::string> errors;
  if (schedule.ranks.empty()) errors.emplace_back("the schedule has no rank");
  if (const std::size_t placed = schedule.placement.rank_of_stage().size();
      placed > 0 && placed != schedule.stages())
    errors.push_back(fmt::format("the placement is of {} stages, the {} ranks have {}", placed,
                                 schedule.ranks.size(), schedule.stages()));
  if (slots < 1) errors.push_back(fmt::format("a channel needs at least 1 slot, got {}", slots));
  if (!errors.empty()) return errors;
  check_lists(packs, schedule, errors);
  check_joint(packs, schedule, errors);
  // A list with missing actions would get stuck for the reasons above.
  if (!errors.empty()) return errors;
  ExchangeCheck exchanges(packs, schedule, errors);
  for (const ContextExchange& exchange : schedule.exchanges) exchanges.add(exchange);
  if (!errors.empty()) return errors;
  return DryRun(packs, schedule, static_cast<std::size_t>(slots)).stuck();
}

}  // namespace slimpack
