// Steps: check the actions alone; check each rank's list; then run all lists together in the worst
// case and name every instruction that is stuck.
#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {
namespace {

std::size_t way(Pass pass) {
  return pass == Pass::kForward ? 0 : 1;
}

/// Checks one rank's list.
class MessageCheck {
 public:
  MessageCheck(const LoweredSchedule& lowered, int slots, std::vector<std::string>& errors)
      : placement_(lowered.placement),
        stages_(lowered.stages()),
        slots_(static_cast<std::size_t>(slots)),
        errors_(errors),
        posted_(stages_),
        used_(stages_) {}

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
    for (std::size_t s = 0; s < stages_; ++s)
      for (const std::size_t w : {0, 1})
        if (posted_[s][w] != used_[s][w])
          error("a rank posts {} {} receives, its actions use {}", posted_[s][w],
                w == 0 ? "forward" : "backward", used_[s][w]);
  }

 private:
  template <class... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) {
    errors_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void add_receive(const Instruction& i) {
    if (!comes_from_afar(i.action)) error("{}: no other rank sends this", to_string(i));
    std::size_t& posted = posted_[i.action.stage.index()][way(i.action.pass)];
    const std::size_t used = used_[i.action.stage.index()][way(i.action.pass)];
    if (i.action.pack != PackId(posted))
      error("{} is posted where pack {} of its direction comes next", to_string(i), posted);
    ++posted;
    if (posted - used > slots_ + 1)
      error("{} is posted while {} receives before it wait for their actions, at most {} may",
            to_string(i), posted - used - 1, slots_);
  }

  void add_compute(const Instruction& i) {
    if (output_)
      error("{} begins before {} has sent its output", to_string(i), to_string(*output_));
    output_.reset();
    if (on_another_rank(i.action, target_stage(i.action, stages_))) output_ = i.action;
    if (!comes_from_afar(i.action)) return;
    const std::size_t s = i.action.stage.index();
    if (posted_[s][way(i.action.pass)] <= i.action.pack.index())
      error("{} begins before the receive of its input is posted", to_string(i));
    ++used_[s][way(i.action.pass)];
  }

  void add_send(const Instruction& i) {
    const bool own = output_ && message_pass(output_->pass) == i.action.pass &&
                     output_->pack == i.action.pack && output_->stage == i.action.stage;
    if (!own) error("{} does not follow the action whose output it sends", to_string(i));
    output_.reset();
  }

  [[nodiscard]] bool on_another_rank(const Action& action, std::optional<StageId> other) const {
    return other && placement_.rank_of(*other) != placement_.rank_of(action.stage);
  }
  [[nodiscard]] bool comes_from_afar(const Action& action) const {
    return on_another_rank(action, source_stage(action, stages_));
  }

  const StagePlacement& placement_;
  std::size_t stages_, slots_;
  std::vector<std::string>& errors_;
  std::vector<std::array<std::size_t, 2>> posted_, used_;  ///< receives by stage and direction
  std::optional<Action> output_;  ///< the action whose output is to be sent next
};

/// Runs the lists of all ranks in the worst case. An event that is possible stays possible until it
/// happens, so one exhaustive run decides.
class WorstCase {
 public:
  WorstCase(const StepPlan& plan, std::span<const LoweredSchedule> lowered)
      : plan_(plan),
        lowered_(lowered),
        per_replica_(lowered.front().ranks.size()),
        ranks_(lowered.size() * per_replica_) {
    for (const LoweredSchedule& replica : lowered) partners_.emplace_back(replica.exchanges);
  }

  std::vector<std::string> stuck() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < lowered_.size(); ++r)
        for (std::size_t p = 0; p < per_replica_; ++p)
          while (step(r, p)) any = true;
    }
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < lowered_.size(); ++r)
      for (std::size_t p = 0; p < per_replica_; ++p)
        if (const Instruction* i = next(r, p))
          lines.push_back(fmt::format("deadlock: replica {} waits on stage {} with {} for {}", r,
                                      i->action.stage.value(), to_string(*i), waits_for(r, p)));
    return lines;
  }

 private:
  /// Messages that a rank has posted to, or from, one rank in one direction.
  struct Posted {
    std::vector<const Instruction*> list;
    std::size_t met = 0;  ///< how many have met what the other rank posted
  };
  using ByPeer = std::map<std::pair<std::size_t, std::size_t>, Posted>;  ///< (channel, rank)
  struct Rank {
    std::size_t next = 0;
    ByPeer sent, received;
    std::size_t open = 0;  ///< posted messages that have not met the other rank's
  };

  Rank& rank(std::size_t r, std::size_t p) { return ranks_[r * per_replica_ + p]; }
  const Instruction* next(std::size_t r, std::size_t p) {
    const auto& list = lowered_[r].ranks[p];
    return rank(r, p).next == list.size() ? nullptr : &list[rank(r, p).next];
  }

  /// Lets the messages from one rank to another meet in the order of posting.
  void meet(std::size_t r, std::size_t from, std::size_t to, std::size_t w) {
    Posted& sent = rank(r, from).sent[{w, to}];
    Posted& received = rank(r, to).received[{w, from}];
    while (sent.met < sent.list.size() && sent.met < received.list.size()) {
      Action action = sent.list[sent.met]->action;
      action.stage = *target_stage(action, lowered_[r].stages());
      if (received.list[sent.met]->action != action) return;
      received.met = ++sent.met;
      --rank(r, from).open;
      --rank(r, to).open;
    }
  }
  /// Whether a synchronisation of the rank's device would end.
  bool nothing_open(std::size_t r, std::size_t p) { return rank(r, p).open == 0; }

  /// Two ranks have a channel for each pass where stages go around the ranks; else one each way,
  /// which both passes share where stages turn back.
  [[nodiscard]] std::size_t channel(std::size_t r, Pass pass) const {
    return lowered_[r].placement.goes_around() ? way(pass) : 0;
  }

  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }

  /// Runs an action on all replicas that share its pack, if all are ready.
  bool compute(std::size_t r, std::size_t p, const Action& action) {
    if (is_joint(action.pass)) return compute_together(r, action);
    if (const Action* partner = partners_[r].of(action)) return compute_pair(r, p, *partner);
    const MicroPack& pack = pack_of(r, action);
    const auto count =
        static_cast<std::size_t>(action.pass == Pass::kWeightGradient ? 1 : pack.replicas);
    const std::size_t first = r - r % count;
    for (std::size_t m = first; m < first + count; ++m) {
      const Instruction* other = next(m, p);
      if (other == nullptr || other->operation != Operation::kCompute ||
          other->action.stage != action.stage || other->action.pass != action.pass ||
          pack_of(m, other->action) != pack || !nothing_open(m, p))
        return false;
    }
    for (std::size_t m = first; m < first + count; ++m) ++rank(m, p).next;
    return true;
  }

  /// Runs the next action of rank p and the one with which it exchanges attention, if both can.
  bool compute_pair(std::size_t r, std::size_t p, const Action& partner) {
    const std::size_t other =
        static_cast<std::size_t>(lowered_[r].placement.rank_of(partner.stage));
    const Instruction* i = next(r, other);
    if (i == nullptr || *i != Instruction{Operation::kCompute, partner} || !nothing_open(r, p) ||
        !nothing_open(r, other))
      return false;
    ++rank(r, p).next;
    ++rank(r, other).next;
    return true;
  }

  /// Runs an action on all ranks of a replica, if all are ready.
  bool compute_together(std::size_t r, const Action& action) {
    for (std::size_t p = 0; p < per_replica_; ++p) {
      const Instruction* other = next(r, p);
      if (other == nullptr || other->operation != Operation::kCompute ||
          other->action.pass != action.pass || other->action.pack != action.pack ||
          !nothing_open(r, p))
        return false;
    }
    for (std::size_t p = 0; p < per_replica_; ++p) ++rank(r, p).next;
    return true;
  }

  bool step(std::size_t r, std::size_t p) {
    const Instruction* i = next(r, p);
    if (i == nullptr) return false;
    if (i->operation == Operation::kCompute) return compute(r, p, i->action);
    if (!nothing_open(r, p)) return false;
    const std::size_t w = channel(r, i->action.pass), stages = lowered_[r].stages();
    const bool sends = i->operation == Operation::kSend;
    const StageId other =
        *(sends ? target_stage(i->action, stages) : source_stage(i->action, stages));
    const auto peer = static_cast<std::size_t>(lowered_[r].placement.rank_of(other));
    (sends ? rank(r, p).sent : rank(r, p).received)[{w, peer}].list.push_back(i);
    ++rank(r, p).open;
    meet(r, sends ? p : peer, sends ? peer : p, w);
    return ++rank(r, p).next, true;
  }

  std::string waits_for(std::size_t r, std::size_t p) {
    for (const std::size_t w : {0, 1}) {
      if (const Instruction* open = first_open(rank(r, p).received, w))
        return fmt::format("the receive of {}, which has not been sent", message(*open));
      if (const Instruction* open = first_open(rank(r, p).sent, w))
        return fmt::format("the send of {}, whose receive is not posted", message(*open));
    }
    const Action& action = next(r, p)->action;
    if (const Action* partner = partners_[r].of(action))
      return fmt::format("{}, with which it exchanges attention", to_string(*partner));
    return is_joint(action.pass) ? "the other ranks of its pipeline"
                                 : "the other replicas of its MicroPack";
  }
  /// The first message of a direction that has not met the other rank's; null if there is none.
  static const Instruction* first_open(const ByPeer& posted, std::size_t w) {
    for (const auto& [peer, messages] : posted)
      if (peer.first == w && messages.met < messages.list.size())
        return messages.list[messages.met];
    return nullptr;
  }
  static std::string message(const Instruction& i) {
    return fmt::format("{}{}", i.action.pass == Pass::kForward ? 'F' : 'B', i.action.pack.value());
  }

  const StepPlan& plan_;
  std::span<const LoweredSchedule> lowered_;
  std::size_t per_replica_;  ///< ranks of a pipeline
  std::vector<Rank> ranks_;
  std::vector<ExchangePartners> partners_;  ///< by replica
};

}  // namespace

std::vector<std::string> check_lowered(const StepPlan& plan,
                                       std::span<const LoweredSchedule> lowered, int slots) {
  std::vector<Schedule> schedules;
  for (const LoweredSchedule& replica : lowered) schedules.push_back(actions_of(replica));
  std::vector<std::string> errors = check_step(plan, schedules, slots);
  for (std::size_t r = 0; r < lowered.size(); ++r)
    for (const std::vector<Instruction>& instructions : lowered[r].ranks) {
      MessageCheck check(lowered[r], slots, errors);
      for (const Instruction& i : instructions) {
        if (errors.size() >= kMostCheckLines) return errors;
        check.add(i);
      }
      check.end();
    }
  // A list with missing instructions would get stuck for the reasons above.
  if (!errors.empty()) return errors;
  return WorstCase(plan, lowered).stuck();
}

}  // namespace slimpack
