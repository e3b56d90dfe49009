// Steps:
//  1. Sweep over the stages of every replica, up and down the pipeline in turn. A stage runs
//     actions until one lacks its input, its output slot or, for a merged pack, the other replicas.
//     Every time is a maximum of times known before, so the order of sweeps does not matter and no
//     event queue is needed.
//  2. Replay the memory of each rank. Make the spans if they are wanted.
#include "slimpack/sim/simulate.h"

#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/sim/lower.h"
#include "slimpack/sim/memory_replay.h"
#include "slimpack/sim/receive_posts.h"
#include "slimpack/sim/replica_barriers.h"
#include "slimpack/sim/step_log.h"

namespace slimpack {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// The times of one pass's packs on one rank; kUnknown until simulated.
struct PassTimes {
  explicit PassTimes(std::size_t packs)
      : start(packs, kUnknown), end(packs), put(packs, kUnknown) {}

  std::vector<std::int64_t> start;
  std::vector<std::int64_t> end;
  std::vector<std::int64_t> put;  ///< the end, or later if the channel was full
};

struct RankState {
  RankState(const PackPlan& packs, bool may_split)
      : forward(packs.forward.size()),
        backward(packs.backward.size()),
        weight(may_split ? packs.backward.size() : 0) {}

  PassTimes forward;
  PassTimes backward;  ///< whole or input gradients
  PassTimes weight;
  std::size_t next = 0;
  std::int64_t free_at = 0;
  bool arrived = false;       ///< waits for the other replicas of the merged pack of action `next`
  bool holds_output = false;  ///< action `next` has run, its output waits for a slot
};

/// The times of a pass on a rank, const or not.
template <class Rank>
auto& times_of(Rank& rank, Pass pass) {
  if (pass == Pass::kForward) return rank.forward;
  return pass == Pass::kWeightGradient ? rank.weight : rank.backward;
}

SpanKind span_kind(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return SpanKind::kForward;
    case Pass::kBackward:
      return SpanKind::kBackward;
    case Pass::kInputGradient:
      return SpanKind::kInputGradient;
    case Pass::kWeightGradient:
      return SpanKind::kWeightGradient;
  }
  return SpanKind::kBackward;
}

class Simulator {
 public:
  /// `log`: gets what happens, unless it is null.
  Simulator(std::span<const ReplicaPacks> replicas, std::span<const Schedule> schedules,
            const SimulationOptions& options, std::vector<LoggedEvent>* log)
      : replicas_(replicas),
        schedules_(schedules),
        stages_(schedules.front().stages.size()),
        slots_(static_cast<std::size_t>(options.slots)),
        posts_(options.lowered, stages_),
        barriers_(packs_of(replicas), stages_),
        log_(log) {
    SLIMPACK_CHECK(!replicas.empty() && schedules.size() == replicas.size());
    SLIMPACK_CHECK(options.slots >= 1 && stages_ >= 1);
    ranks_.reserve(replicas_.size() * stages_);
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      const ReplicaPacks& tasks = replicas_[r];
      SLIMPACK_CHECK(schedules_[r].stages.size() == stages_ &&
                     tasks.times.forward.size() == stages_);
      for (std::size_t s = 0; s < stages_; ++s)
        ranks_.emplace_back(tasks.packs, !tasks.times.weight_gradient.empty());
    }
  }

  void run() {
    std::size_t left = 0;
    for (const Schedule& schedule : schedules_)
      for (const auto& actions : schedule.stages) left += actions.size();
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t r = 0; r < replicas_.size(); ++r) {
        for (std::size_t s = 0; s < stages_; ++s) left -= advance(r, s);
        for (std::size_t s = stages_; s-- > 0;) left -= advance(r, s);
      }
      SLIMPACK_CHECK(left < before || any_arrived(), "deadlock with {} actions left", left);
    }
    end_step();
  }

  SimulationResult result(bool with_timeline) {
    SimulationResult result;
    result.timeline.origin = "predicted";
    result.timeline.ranks = static_cast<std::int32_t>(ranks_.size());
    result.timeline.replicas = static_cast<std::int32_t>(replicas_.size());
    std::int64_t busy = 0;
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      SLIMPACK_CHECK(replicas_[r].bytes.rows.size() == stages_);
      const RowFlow flow = row_flow(replicas_[r].packs);
      for (std::size_t s = 0; s < stages_; ++s) {
        result.busy.push_back(busy_of(r, s));
        busy += result.busy.back().count();
        result.makespan =
            std::max(result.makespan, Nanos(all_reduced_) + replicas_[r].times.step_end[s]);
        result.peak_activation.push_back(
            replay_memory(stage_times(r, s), ActivationLedger(flow, replicas_[r].bytes, StageId(s)),
                          rank(r, s), with_timeline ? &result.timeline.memory : nullptr));
        if (with_timeline) draw(r, s, result.timeline.spans);
      }
      result.lower_bound = std::max(result.lower_bound,
                                    makespan_lower_bound(replicas_[r].packs, replicas_[r].times));
    }
    result.timeline.peak_activation = result.peak_activation;
    const double whole =
        static_cast<double>(ranks_.size()) * static_cast<double>(result.makespan.count());
    result.bubble_ratio = whole > 0 ? 1 - static_cast<double>(busy) / whole : 0;
    return result;
  }

 private:
  static std::vector<const PackPlan*> packs_of(std::span<const ReplicaPacks> replicas) {
    std::vector<const PackPlan*> packs;
    for (const ReplicaPacks& tasks : replicas) packs.push_back(&tasks.packs);
    return packs;
  }

  [[nodiscard]] std::int32_t rank(std::size_t r, std::size_t s) const {
    return static_cast<std::int32_t>(r * stages_ + s);
  }

  [[nodiscard]] std::int64_t duration_of(std::size_t r, std::size_t s, const Action& action) const {
    const TaskTimes& times = replicas_[r].times;
    const std::size_t pack = action.pack.index();
    switch (action.pass) {
      case Pass::kForward:
        return times.forward[s][pack].count();
      case Pass::kBackward:
        return times.backward[s][pack].count();
      case Pass::kInputGradient:
        return times.input_gradient[s][pack].count();
      case Pass::kWeightGradient:
        return times.weight_gradient[s][pack].count();
    }
    return 0;
  }

  /// Runs weight gradients, which wait for no other stage or replica.
  void run_weight(std::size_t r, std::size_t s, const Action& action) {
    RankState& rank = ranks_[r * stages_ + s];
    rank.weight.start[action.pack.index()] = rank.free_at;
    rank.free_at += duration_of(r, s, action);
    rank.weight.end[action.pack.index()] = rank.weight.put[action.pack.index()] = rank.free_at;
    log(r, rank.free_at, {Operation::kCompute, action});
    ++rank.next;
  }

  void log(std::size_t r, std::int64_t time, const Instruction& instruction) {
    if (log_ != nullptr) log_->push_back({time, r, instruction});
  }

  /// Starts the action if its input has arrived and, for a merged pack, all replicas are ready.
  bool start(std::size_t r, std::size_t s, const Action& action) {
    RankState& rank = ranks_[r * stages_ + s];
    const std::size_t pack = action.pack.index();
    std::int64_t start = 0;
    std::int64_t duration = duration_of(r, s, action);
    if (!rank.arrived) {
      const std::int64_t arrival = arrival_of(r, s, action);
      if (arrival == kUnknown) return false;
      start = std::max(rank.free_at, arrival);
    }
    if (barriers_.has(r, action.pass, pack)) {
      const bool arrives = !rank.arrived;
      if (arrives) barriers_.arrive(r, action.pass, pack, s, start, duration);
      const ReplicaBarriers::Times barrier = barriers_.times(r, action.pass, pack, s);
      rank.arrived = !barrier.known;
      if (!barrier.known) return false;
      start = barrier.start;
      duration = barrier.duration;
      if (arrives) log_merged(r, s, action, start + duration);
    } else {
      log(r, start + duration, {Operation::kCompute, action});
    }
    PassTimes& own = times_of(rank, action.pass);
    own.start[pack] = start;
    rank.free_at = own.end[pack] = start + duration;
    return true;
  }

  /// The replicas of a merged pack run it together, so nothing stands between their events.
  void log_merged(std::size_t r, std::size_t s, const Action& action, std::int64_t end) {
    const auto& packs = replicas_[r].packs.of(action.pass);
    const auto size = static_cast<std::size_t>(packs[action.pack.index()].replicas);
    for (std::size_t m = r - r % size; m < r - r % size + size; ++m)
      log(m, end, {Operation::kCompute, schedules_[m].stages[s][ranks_[m * stages_ + s].next]});
  }

  /// Runs all actions that can run on stage s of replica r. Returns the number of finished and sent
  /// actions.
  std::size_t advance(std::size_t r, std::size_t s) {
    RankState& rank = ranks_[r * stages_ + s];
    const auto& actions = schedules_[r].stages[s];
    const std::size_t first = rank.next;
    while (rank.next < actions.size()) {
      const Action action = actions[rank.next];
      if (action.pass == Pass::kWeightGradient) {
        run_weight(r, s, action);
        continue;
      }
      if (!rank.holds_output && !start(r, s, action)) break;
      const std::int64_t slot = slot_for(r, s, action);
      rank.holds_output = slot == kUnknown;
      if (rank.holds_output) break;
      rank.free_at = std::max(rank.free_at, slot);
      times_of(rank, action.pass).put[action.pack.index()] = rank.free_at;
      if (has_output(action, stages_))
        log(r, rank.free_at,
            {Operation::kSend, {action.stage, message_pass(action.pass), action.pack}});
      ++rank.next;
    }
    return rank.next - first;
  }

  /// Whether a barrier is complete that some replica has not passed. A sweep may complete a barrier
  /// without finishing an action.
  [[nodiscard]] bool any_arrived() {
    bool any = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].arrived) continue;
      const std::size_t r = i / stages_;
      const Action action = schedules_[r].stages[i % stages_][ranks_[i].next];
      any |= barriers_.times(r, action.pass, action.pack.index(), i % stages_).known;
    }
    return any;
  }

  /// When the input of an action arrives; kUnknown until its sender is simulated.
  [[nodiscard]] std::int64_t arrival_of(std::size_t r, std::size_t s, const Action& action) const {
    if (!has_input(action, stages_)) return 0;
    const bool forward = action.pass == Pass::kForward;
    const RankState& sender = ranks_[r * stages_ + (forward ? s - 1 : s + 1)];
    const TaskTimes& times = replicas_[r].times;
    const std::int64_t put = times_of(sender, action.pass).put[action.pack.index()];
    const std::int64_t posted = posted_at(r, s, action);
    if (put == kUnknown || posted == kUnknown) return kUnknown;
    const auto& transfers = forward ? times.forward_transfer : times.backward_transfer;
    return std::max(put, posted) + transfers[action.pack.index()].count();
  }

  /// When the receive of an action's input is posted; kUnknown until that is simulated.
  [[nodiscard]] std::int64_t posted_at(std::size_t r, std::size_t s, const Action& action) const {
    const Instruction* before = posts_.before(r, s, action);
    if (before == nullptr) return 0;
    const PassTimes& times = times_of(ranks_[r * stages_ + s], before->action.pass);
    const std::size_t pack = before->action.pack.index();
    if (before->operation == Operation::kSend) return times.put[pack];
    return times.start[pack] == kUnknown ? kUnknown : times.end[pack];
  }

  /// When the slot for an action's output is free: when the receiver starts the action that takes
  /// the message `slots` before this one.
  [[nodiscard]] std::int64_t slot_for(std::size_t r, std::size_t s, const Action& action) const {
    const std::size_t pack = action.pack.index();
    if (pack < slots_ || !has_output(action, stages_)) return 0;
    const bool forward = action.pass == Pass::kForward;
    const RankState& receiver = ranks_[r * stages_ + (forward ? s + 1 : s - 1)];
    return times_of(receiver, action.pass).start[pack - slots_];
  }

  /// What is left of the stage's reduction after the replica's last action there.
  [[nodiscard]] Nanos reduction_of(std::size_t r, std::size_t s) const {
    const TaskTimes& times = replicas_[r].times;
    const auto& actions = schedules_[r].stages[s];
    return times.reduce_after(actions.empty() ? Pass::kBackward : actions.back().pass, s);
  }

  void end_step() {
    for (std::size_t s = 0; s < stages_; ++s) {
      std::int64_t ran = 0;
      std::int64_t reduced = 0;
      for (std::size_t r = 0; r < replicas_.size(); ++r) {
        const std::int64_t end = ranks_[r * stages_ + s].free_at;
        ran = std::max(ran, end);
        reduced = std::max(reduced, end + reduction_of(r, s).count());
      }
      reduce_start_.push_back(ran);
      reduced_.push_back(reduced);
      all_reduced_ = std::max(all_reduced_, reduced);
    }
  }

  [[nodiscard]] Nanos busy_of(std::size_t r, std::size_t s) const {
    const TaskTimes& times = replicas_[r].times;
    const RankState& rank = ranks_[r * stages_ + s];
    std::int64_t busy = times.step_end[s].count() + reduced_[s] - reduce_start_[s];
    for (const PassTimes* pass : {&rank.forward, &rank.backward, &rank.weight})
      for (std::size_t p = 0; p < pass->start.size(); ++p)
        if (pass->start[p] != kUnknown) busy += pass->end[p] - pass->start[p];
    return Nanos(busy);
  }

  [[nodiscard]] StageTimes stage_times(std::size_t r, std::size_t s) const {
    const ReplicaPacks& tasks = replicas_[r];
    const RankState* rank = &ranks_[r * stages_ + s];
    StageTimes out{schedules_[r].stages[s],
                   {rank->forward.start, rank->forward.end},
                   {rank->backward.start, rank->backward.end},
                   {rank->weight.start, rank->weight.end},
                   {},
                   {}};
    if (s > 0) out.forward_inputs = {(rank - 1)->forward.put, tasks.bytes.forward_input};
    if (s + 1 < stages_)
      out.backward_inputs = {(rank + 1)->backward.put, tasks.bytes.backward_input};
    return out;
  }

  void draw(std::size_t r, std::size_t s, std::vector<Span>& spans) const {
    const RankState& state = ranks_[r * stages_ + s];
    const TaskTimes& times = replicas_[r].times;
    std::int64_t at = 0;
    const auto until = [&](SpanKind kind, PackId pack, std::int64_t end) {
      if (end > at) spans.push_back({rank(r, s), kind, pack, Nanos(at), Nanos(end)});
      at = std::max(at, end);
    };
    for (const Action& action : schedules_[r].stages[s]) {
      const PassTimes& own = times_of(state, action.pass);
      until(SpanKind::kWaitReceive, action.pack, own.start[action.pack.index()]);
      until(span_kind(action.pass), action.pack, own.end[action.pack.index()]);
      until(SpanKind::kWaitSend, action.pack, own.put[action.pack.index()]);
    }
    until(SpanKind::kWaitReceive, PackId(-1), reduce_start_[s]);
    until(SpanKind::kReduce, PackId(-1), reduced_[s]);
    until(SpanKind::kWaitReceive, PackId(-1), all_reduced_);
    until(SpanKind::kOptimizer, PackId(-1), all_reduced_ + times.step_end[s].count());
  }

  std::span<const ReplicaPacks> replicas_;
  std::span<const Schedule> schedules_;
  std::size_t stages_;
  std::size_t slots_;
  ReceivePosts posts_;
  ReplicaBarriers barriers_;
  std::vector<LoggedEvent>* log_;
  std::vector<RankState> ranks_;            ///< [replica · stages + stage]
  std::vector<std::int64_t> reduce_start_;  ///< by stage: when the last replica has run it
  std::vector<std::int64_t> reduced_;       ///< by stage
  std::int64_t all_reduced_ = 0;
};

}  // namespace

double SimulationResult::gap() const {
  return lower_bound > Nanos(0)
             ? static_cast<double>(makespan.count()) / static_cast<double>(lower_bound.count()) - 1
             : 0;
}

SimulationResult simulate(std::span<const ReplicaPacks> replicas,
                          std::span<const Schedule> schedules, const SimulationOptions& options) {
  Simulator simulator(replicas, schedules, options, nullptr);
  simulator.run();
  return simulator.result(options.timeline);
}

std::vector<LoweredSchedule> lower(std::span<const ReplicaPacks> replicas,
                                   std::span<const Schedule> schedules, int slots) {
  std::vector<LoggedEvent> log;
  Simulator(replicas, schedules, {slots, false, {}}, &log).run();
  return lowered_by(std::move(log), replicas.size(), schedules.front().stages.size());
}

}  // namespace slimpack
