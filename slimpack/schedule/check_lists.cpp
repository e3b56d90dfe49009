// Checks the lists of a schedule by themselves, before anything runs.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

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
    if (!passes_rows(end.pass) || !listed_.contains(end))
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

void check_actions(const PackPlan& packs, const Schedule& schedule,
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

std::vector<std::string> check_lists(const PackPlan& packs, const Schedule& schedule, int slots) {
  std::vector<std::string> errors;
  if (schedule.ranks.empty()) errors.emplace_back("the schedule has no rank");
  if (const std::size_t placed = schedule.placement.rank_of_stage().size();
      placed > 0 && placed != schedule.stages())
    errors.push_back(fmt::format("the placement is of {} stages, the {} ranks have {}", placed,
                                 schedule.ranks.size(), schedule.stages()));
  if (slots < 1) errors.push_back(fmt::format("a channel needs at least 1 slot, got {}", slots));
  if (!errors.empty()) return errors;
  check_actions(packs, schedule, errors);
  check_joint(packs, schedule, errors);
  // A list with missing actions would get stuck for the reasons above.
  if (!errors.empty()) return errors;
  ExchangeCheck exchanges(packs, schedule, errors);
  for (const ContextExchange& exchange : schedule.exchanges) exchanges.add(exchange);
  return errors;
}

}  // namespace slimpack
