// Steps: check the contents of each stage's list; then run the lists without a clock as far as they
// go, and name every action that is stuck.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// Messages of one pass between two neighbouring stages, counted since the start.
struct Channel {
  std::size_t put = 0;
  std::size_t taken = 0;
};

struct StageRun {
  std::size_t next = 0;
  std::size_t forwards = 0;
  bool holds_output = false;  ///< the last action's output waits for a free slot
};

/// Runs the lists in any order that the rules allow. A possible action stays possible until it
/// runs, so one exhaustive run decides.
class DryRun {
 public:
  DryRun(const PackPlan& packs, const Schedule& schedule, std::size_t slots)
      : schedule_(schedule),
        slots_(slots),
        stages_(schedule.stages.size()),
        runs_(stages_),
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
      for (std::size_t s = 0; s < stages_; ++s)
        while (step(s)) moved = true;
    }
    std::vector<std::string> lines;
    for (std::size_t s = 0; s < stages_; ++s)
      if (runs_[s].holds_output || runs_[s].next < schedule_.stages[s].size())
        lines.push_back(waits_for(s));
    return lines;
  }

 private:
  [[nodiscard]] const Action& last_action(std::size_t s) const {
    return schedule_.stages[s][runs_[s].next - 1];
  }
  /// The channels that an action reads and writes. Null at the ends of the pipeline and for weight
  /// gradients.
  Channel* input_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kWeightGradient) return nullptr;
    if (action.pass == Pass::kForward) return s == 0 ? nullptr : &forward_[s - 1];
    return s + 1 == stages_ ? nullptr : &backward_[s + 1];
  }
  Channel* output_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kWeightGradient) return nullptr;
    if (action.pass == Pass::kForward) return s + 1 == stages_ ? nullptr : &forward_[s];
    return s == 0 ? nullptr : &backward_[s];
  }
  [[nodiscard]] bool rows_there(const Action& action) const {
    return !goes_back(action.pass) ||
           runs_[action.stage.index()].forwards >= needed_[action.pack.index()];
  }

  bool step(std::size_t s) {
    StageRun& run = runs_[s];
    if (run.holds_output) {
      Channel* output = output_of(last_action(s));
      if (output->put - output->taken >= slots_) return false;
      ++output->put;
      run.holds_output = false;
      return true;
    }
    if (run.next == schedule_.stages[s].size()) return false;
    const Action& action = schedule_.stages[s][run.next];
    Channel* input = input_of(action);
    if (input != nullptr && input->taken == input->put) return false;
    if (!rows_there(action)) return false;
    if (input != nullptr) ++input->taken;
    if (action.pass == Pass::kForward) ++run.forwards;
    ++run.next;
    run.holds_output = output_of(action) != nullptr;
    return true;
  }

  std::string waits_for(std::size_t s) {
    if (runs_[s].holds_output) {
      const Action& sent = last_action(s);
      return fmt::format(
          "deadlock: stage {} cannot send the output of {}: all {} slots to stage {} "
          "are full",
          s, to_string(sent), slots_, sent.pass == Pass::kForward ? s + 1 : s - 1);
    }
    const Action& action = schedule_.stages[s][runs_[s].next];
    if (!rows_there(action))
      return fmt::format("deadlock: {} needs {} forwards on stage {} before it, the order has {}",
                         to_string(action), needed_[action.pack.index()], s, runs_[s].forwards);
    const bool forward = action.pass == Pass::kForward;
    const auto& actions = schedule_.stages[forward ? s - 1 : s + 1];
    // The neighbour may split a backward that this stage runs whole.
    const auto source = std::find_if(actions.begin(), actions.end(), [&](const Action& other) {
      return other.pack == action.pack &&
             (forward ? other.pass == Pass::kForward : goes_back(other.pass));
    });
    return fmt::format("deadlock: {} waits for the output of {}", to_string(action),
                       to_string(*source));
  }

  const Schedule& schedule_;
  std::size_t slots_;
  std::size_t stages_;
  std::vector<StageRun> runs_;
  std::vector<Channel> forward_;   ///< by sending stage
  std::vector<Channel> backward_;  ///< by sending stage
  std::vector<std::size_t> needed_;
};

/// A broken list is often broken everywhere; the first lines suffice.
constexpr std::size_t kMaxLines = 8;

/// Checks one stage's list action by action. Every line names one action and its mistake.
class ListCheck {
 public:
  ListCheck(const PackPlan& packs, std::size_t stage, std::vector<std::string>& errors)
      : stage_(stage), total_{packs.forward.size(), packs.backward.size()}, errors_(errors) {}

  void add(const Action& action) {
    if (action.stage != StageId(stage_))
      errors_.push_back(fmt::format("stage {} lists {}", stage_, to_string(action)));
    else if (action.pass == Pass::kWeightGradient)
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

void check_lists(const PackPlan& packs, const Schedule& schedule,
                 std::vector<std::string>& errors) {
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    ListCheck check(packs, s, errors);
    for (const Action& action : schedule.stages[s]) {
      if (errors.size() >= kMaxLines) return;
      check.add(action);
    }
    check.end();
  }
}

}  // namespace

std::vector<std::string> check_schedule(const PackPlan& packs, const Schedule& schedule,
                                        int slots) {
  std::vector<std::string> errors;
  if (schedule.stages.empty()) errors.emplace_back("the schedule has no stage");
  if (slots < 1) errors.push_back(fmt::format("a channel needs at least 1 slot, got {}", slots));
  check_lists(packs, schedule, errors);
  // A list with missing actions would get stuck for the reasons above.
  if (!errors.empty()) return errors;
  return DryRun(packs, schedule, static_cast<std::size_t>(slots)).stuck();
}

}  // namespace slimpack
