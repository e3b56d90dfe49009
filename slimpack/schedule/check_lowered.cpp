// Steps: check the actions alone; check each rank's list; then run all lists together in the worst
// case and name every instruction that is stuck.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

/// A broken list is often broken everywhere; the first lines suffice.
constexpr std::size_t kMaxLines = 8;

std::size_t way(Pass pass) {
  return pass == Pass::kForward ? 0 : 1;
}

/// Checks one rank's list.
class MessageCheck {
 public:
  MessageCheck(std::size_t stages, int slots, std::vector<std::string>& errors)
      : stages_(stages), slots_(static_cast<std::size_t>(slots)), errors_(errors) {}

  void add(const Instruction& i) {
    switch (i.operation) {
      case Operation::kReceive:
        return add_receive(i);
      case Operation::kCompute:
        return add_compute(i);
      case Operation::kSend:
        return add_send(i);
    }
  }

  void end() {
    if (output_) error("{} has no send of its output", to_string(*output_));
    for (const std::size_t w : {0, 1})
      if (posted_[w] != used_[w])
        error("a rank posts {} {} receives, its actions use {}", posted_[w],
              w == 0 ? "forward" : "backward", used_[w]);
  }

 private:
  template <class... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) {
    errors_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void add_receive(const Instruction& i) {
    const std::size_t w = way(i.action.pass);
    if (!has_input(i.action, stages_)) error("{}: no stage sends this", to_string(i));
    if (i.action.pack != PackId(posted_[w]))
      error("{} is posted where pack {} of its direction comes next", to_string(i), posted_[w]);
    ++posted_[w];
    if (posted_[w] - used_[w] > slots_ + 1)
      error("{} is posted while {} receives before it wait for their actions, at most {} may",
            to_string(i), posted_[w] - used_[w] - 1, slots_);
  }

  void add_compute(const Instruction& i) {
    if (output_)
      error("{} begins before {} has sent its output", to_string(i), to_string(*output_));
    output_.reset();
    if (has_output(i.action, stages_)) output_ = i.action;
    if (!has_input(i.action, stages_)) return;
    const std::size_t w = way(i.action.pass);
    if (posted_[w] <= i.action.pack.index())
      error("{} begins before the receive of its input is posted", to_string(i));
    ++used_[w];
  }

  void add_send(const Instruction& i) {
    const bool own = output_ && message_pass(output_->pass) == i.action.pass &&
                     output_->pack == i.action.pack && output_->stage == i.action.stage;
    if (!own) error("{} does not follow the action whose output it sends", to_string(i));
    output_.reset();
  }

  std::size_t stages_, slots_;
  std::vector<std::string>& errors_;
  std::array<std::size_t, 2> posted_{}, used_{};  ///< receives by direction
  std::optional<Action> output_;                  ///< the action whose output is to be sent next
};

/// Runs the lists of all ranks in the worst case. What is possible stays possible until it happens,
/// so one exhaustive run decides.
class WorstCase {
 public:
  WorstCase(const StepPlan& plan, std::span<const LoweredSchedule> lowered)
      : plan_(plan),
        lowered_(lowered),
        stages_(lowered.front().stages.size()),
        ranks_(lowered.size() * stages_) {}

  std::vector<std::string> stuck() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < lowered_.size(); ++r)
        for (std::size_t s = 0; s < stages_; ++s)
          while (step(r, s)) any = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < lowered_.size(); ++r)
      for (std::size_t s = 0; s < stages_; ++s)
        if (next(r, s) != nullptr)
          lines.push_back(fmt::format("deadlock: replica {} waits on stage {} with {} for {}", r, s,
                                      to_string(*next(r, s)), waits_for(r, s)));
    return lines;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    std::array<std::size_t, 2> sent{}, received{};  ///< posted, by direction
  };

  Rank& rank(std::size_t r, std::size_t s) { return ranks_[r * stages_ + s]; }
  const Instruction* next(std::size_t r, std::size_t s) {
    const auto& list = lowered_[r].stages[s];
    return rank(r, s).next == list.size() ? nullptr : &list[rank(r, s).next];
  }
  /// The neighbour to which messages of a direction go, or from which they come; null = none.
  Rank* target(std::size_t r, std::size_t s, std::size_t w) {
    if (s == (w == 0 ? stages_ - 1 : 0)) return nullptr;
    return &rank(r, w == 0 ? s + 1 : s - 1);
  }
  Rank* source(std::size_t r, std::size_t s, std::size_t w) { return target(r, s, 1 - w); }

  /// Sends of a direction that have not met their receives.
  std::size_t open_sends(std::size_t r, std::size_t s, std::size_t w) {
    const Rank* to = target(r, s, w);
    const std::size_t sent = rank(r, s).sent[w];
    return to == nullptr || to->received[w] >= sent ? 0 : sent - to->received[w];
  }
  std::size_t open_receives(std::size_t r, std::size_t s, std::size_t w) {
    const Rank* from = source(r, s, w);
    const std::size_t received = rank(r, s).received[w];
    return from == nullptr || from->sent[w] >= received ? 0 : received - from->sent[w];
  }
  /// Whether a synchronisation of the rank's device would end.
  bool nothing_open(std::size_t r, std::size_t s) {
    for (const std::size_t w : {0, 1})
      if (open_sends(r, s, w) > 0 || open_receives(r, s, w) > 0) return false;
    return true;
  }

  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }

  /// Runs an action on all replicas that share its pack, if all are ready.
  bool compute(std::size_t r, std::size_t s, const Action& action) {
    const MicroPack& pack = pack_of(r, action);
    const auto count =
        static_cast<std::size_t>(action.pass == Pass::kWeightGradient ? 1 : pack.replicas);
    const std::size_t first = r - r % count;
    for (std::size_t m = first; m < first + count; ++m) {
      const Instruction* other = next(m, s);
      if (other == nullptr || other->operation != Operation::kCompute ||
          other->action.pass != action.pass || pack_of(m, other->action) != pack ||
          !nothing_open(m, s))
        return false;
    }
    for (std::size_t m = first; m < first + count; ++m) ++rank(m, s).next;
    return true;
  }

  bool step(std::size_t r, std::size_t s) {
    const Instruction* i = next(r, s);
    if (i == nullptr) return false;
    if (i->operation == Operation::kCompute) return compute(r, s, i->action);
    if (!nothing_open(r, s)) return false;
    Rank& own = rank(r, s);
    ++(i->operation == Operation::kReceive ? own.received : own.sent)[way(i->action.pass)];
    return ++own.next, true;
  }

  std::string waits_for(std::size_t r, std::size_t s) {
    const char* const names[] = {"F", "B"};
    for (const std::size_t w : {0, 1}) {
      if (open_receives(r, s, w) > 0)
        return fmt::format("the receive of {}{}, which has not been sent", names[w],
                           source(r, s, w)->sent[w]);
      if (open_sends(r, s, w) > 0)
        return fmt::format("the send of {}{}, whose receive is not posted", names[w],
                           target(r, s, w)->received[w]);
    }
    return "the other replicas of its MicroPack";
  }

  const StepPlan& plan_;
  std::span<const LoweredSchedule> lowered_;
  std::size_t stages_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::vector<std::string> check_lowered(const StepPlan& plan,
                                       std::span<const LoweredSchedule> lowered, int slots) {
  std::vector<Schedule> schedules;
  for (const LoweredSchedule& replica : lowered) schedules.push_back(actions_of(replica));
  std::vector<std::string> errors = check_step_schedules(plan, schedules, slots);
  for (std::size_t r = 0; r < lowered.size(); ++r)
    for (const std::vector<Instruction>& instructions : lowered[r].stages) {
      MessageCheck check(lowered[r].stages.size(), slots, errors);
      for (const Instruction& i : instructions) {
        if (errors.size() >= kMaxLines) return errors;
        check.add(i);
      }
      check.end();
    }
  // A list with missing instructions would get stuck for the reasons above.
  if (!errors.empty()) return errors;
  return WorstCase(plan, lowered).stuck();
}

}  // namespace slimpack
