// Steps: compare each stage's list with what must be in it; then run the lists without a clock, as
// far as they go, and name whatever is stuck.
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

/// Runs the lists in any order that the rules allow: whatever can happen stays possible, so one
/// exhaustive run decides.
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
  /// The channel that an action reads, or that it writes; null at the ends of the pipeline.
  Channel* input_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kForward) return s == 0 ? nullptr : &forward_[s - 1];
    return s + 1 == stages_ ? nullptr : &backward_[s + 1];
  }
  Channel* output_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (action.pass == Pass::kForward) return s + 1 == stages_ ? nullptr : &forward_[s];
    return s == 0 ? nullptr : &backward_[s];
  }
  [[nodiscard]] bool rows_there(const Action& action) const {
    return action.pass == Pass::kForward ||
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
    Action source = action;
    source.stage = action.pass == Pass::kForward ? StageId(s - 1) : StageId(s + 1);
    return fmt::format("deadlock: {} waits for the output of {}", to_string(action),
                       to_string(source));
  }

  const Schedule& schedule_;
  std::size_t slots_;
  std::size_t stages_;
  std::vector<StageRun> runs_;
  std::vector<Channel> forward_;   ///< by sending stage
  std::vector<Channel> backward_;  ///< by sending stage
  std::vector<std::size_t> needed_;
};

/// A broken list tends to be broken everywhere; the first lines tell.
constexpr std::size_t kMaxLines = 8;

void check_lists(const PackPlan& packs, const Schedule& schedule,
                 std::vector<std::string>& errors) {
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    std::size_t expected[2] = {0, 0};
    const std::size_t total[2] = {packs.forward.size(), packs.backward.size()};
    for (const Action& action : schedule.stages[s]) {
      if (errors.size() >= kMaxLines) return;
      const auto pass = static_cast<std::size_t>(action.pass);
      if (action.stage != StageId(s))
        errors.push_back(fmt::format("stage {} lists {}", s, to_string(action)));
      else if (action.pack != PackId(expected[pass]) || expected[pass] == total[pass])
        errors.push_back(fmt::format("stage {} lists {} where pack {} of {} comes next", s,
                                     to_string(action), expected[pass], total[pass]));
      ++expected[pass];
    }
    for (const std::size_t pass : {0, 1})
      if (expected[pass] < total[pass])
        errors.push_back(fmt::format("stage {} runs {} of {} {} packs", s, expected[pass],
                                     total[pass], pass == 0 ? "forward" : "backward"));
  }
}

}  // namespace

std::vector<std::string> check_schedule(const PackPlan& packs, const Schedule& schedule,
                                        int slots) {
  std::vector<std::string> errors;
  if (schedule.stages.empty()) errors.emplace_back("the schedule has no stage");
  if (slots < 1) errors.push_back(fmt::format("a channel needs at least 1 slot, got {}", slots));
  check_lists(packs, schedule, errors);
  // Lists with holes would only be stuck for the reasons above.
  if (!errors.empty()) return errors;
  return DryRun(packs, schedule, static_cast<std::size_t>(slots)).stuck();
}

}  // namespace slimpack
