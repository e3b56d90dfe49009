// Steps:
//  1. Sweep over the ranks of every replica, up and down the pipeline in turn. A rank runs
//     actions until one lacks its input, its output slot, for a merged pack the other replicas, for
//     E, H and G the other ranks, or for an exchange of attention the other action.
//     Every time is a maximum of times known before, so the order of sweeps does not matter and no
//     event queue is needed.
//  2. Replay the memory of each rank. Make the spans if they are wanted.
#include "slimpack/sim/simulate.h"

#include <algorithm>
#include <span>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/sim/exchange_barriers.h"
#include "slimpack/sim/lower.h"
#include "slimpack/sim/memory_replay.h"
#include "slimpack/sim/pipeline_barriers.h"
#include "slimpack/sim/receive_posts.h"
#include "slimpack/sim/replica_barriers.h"
#include "slimpack/sim/step_log.h"

namespace slimpack {
namespace {

constexpr std::int64_t kUnknown = PipelineBarriers::kUnknown;

/// The times of one pass's packs on one stage; kUnknown until simulated.
struct PassTimes {
  explicit PassTimes(std::size_t packs)
      : start(packs, kUnknown), end(packs), put(packs, kUnknown) {}

  std::vector<std::int64_t> start;
  std::vector<std::int64_t> end;
  std::vector<std::int64_t> put;  ///< the end, or later if the channel was full
};

/// A view of the times of any pass's packs on one stage.
struct PassView {
  std::span<const std::int64_t> start, end, put;
};

struct StageState {
  StageState(const PackPlan& packs, bool may_split)
      : forward(packs.forward.size()),
        backward(packs.backward.size()),
        weight(may_split ? packs.backward.size() : 0) {}

  PassTimes forward;
  PassTimes backward;  ///< whole or input gradients
  PassTimes weight;
};

struct RankState {
  std::size_t next = 0;
  std::int64_t free_at = 0;
  bool arrived = false;       ///< waits for the other replicas of the merged pack of action `next`
  bool holds_output = false;  ///< action `next` has run, its output waits for a slot
};

/// The times of a pass on a stage, const or not.
template <class Stage>
auto& times_of(Stage& stage, Pass pass) {
  if (pass == Pass::kForward) return stage.forward;
  return pass == Pass::kWeightGradient ? stage.weight : stage.backward;
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
    case Pass::kEmbedding:
      return SpanKind::kEmbedding;
    case Pass::kHead:
      return SpanKind::kHead;
    case Pass::kEmbeddingGradient:
      return SpanKind::kEmbeddingGradient;
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
        placement_(schedules.front().placement),
        per_replica_(schedules.front().ranks.size()),
        stages_(schedules.front().stages()),
        slots_(static_cast<std::size_t>(options.slots)),
        posts_(options.lowered, stages_),
        barriers_(packs_of(replicas), stages_),
        log_(log) {
    SLIMPACK_CHECK(!replicas.empty() && schedules.size() == replicas.size());
    SLIMPACK_CHECK(options.slots >= 1 && stages_ >= 1);
    ranks_.resize(replicas_.size() * per_replica_);
    stage_states_.reserve(replicas_.size() * stages_);
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      const ReplicaPacks& tasks = replicas_[r];
      SLIMPACK_CHECK(schedules_[r].ranks.size() == per_replica_ &&
                     schedules_[r].stages() == stages_ && tasks.times.forward.size() == stages_ &&
                     tasks.times.ranks() == per_replica_);
      for (std::size_t s = 0; s < stages_; ++s)
        stage_states_.emplace_back(tasks.packs, !tasks.times.weight_gradient.empty());
      joint_.emplace_back(tasks.times, per_replica_);
      exchanges_.emplace_back(schedules_[r].exchanges);
    }
  }

  void run() {
    std::size_t left = 0;
    for (const Schedule& schedule : schedules_)
      for (const auto& actions : schedule.ranks) left += actions.size();
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t r = 0; r < replicas_.size(); ++r) {
        for (std::size_t p = 0; p < per_replica_; ++p) left -= advance(r, p);
        for (std::size_t p = per_replica_; p-- > 0;) left -= advance(r, p);
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
      for (std::size_t p = 0; p < per_replica_; ++p) {
        result.busy.push_back(busy_of(r, p));
        busy += result.busy.back().count();
        result.makespan =
            std::max(result.makespan, Nanos(all_reduced_) + replicas_[r].times.step_end[p]);
        result.peak_activation.push_back(replay_memory(
            rank_times(r, p), ActivationLedger(flow, replicas_[r].bytes, p, placement_), rank(r, p),
            with_timeline ? &result.timeline.memory : nullptr));
        if (with_timeline) draw(r, p, result.timeline.spans);
      }
      result.lower_bound =
          std::max(result.lower_bound,
                   makespan_lower_bound(replicas_[r].packs, replicas_[r].times, placement_));
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

  [[nodiscard]] std::vector<StageId> stages_of(std::size_t p) const {
    return placement_.stages_of(static_cast<std::int32_t>(p));
  }
  /// Rank p of replica r's pipeline.
  [[nodiscard]] std::int32_t rank(std::size_t r, std::size_t p) const {
    return static_cast<std::int32_t>(r * per_replica_ + p);
  }
  [[nodiscard]] StageState& state_of(std::size_t r, std::size_t s) {
    return stage_states_[r * stages_ + s];
  }
  [[nodiscard]] const StageState& state_of(std::size_t r, std::size_t s) const {
    return stage_states_[r * stages_ + s];
  }

  [[nodiscard]] std::int64_t duration_of(std::size_t r, const Action& action) const {
    const TaskTimes& times = replicas_[r].times;
    const std::size_t s = action.stage.index();
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
      case Pass::kEmbedding:
      case Pass::kHead:
      case Pass::kEmbeddingGradient:
        break;  // PipelineBarriers
    }
    return 0;
  }

  [[nodiscard]] PassView times_of_action(std::size_t r, const Action& action) const {
    if (is_joint(action.pass)) {
      const PipelineBarriers::Times& times = joint_[r].of(action.pass);
      return {times.start, times.end, times.end};
    }
    const PassTimes& times = times_of(state_of(r, action.stage.index()), action.pass);
    return {times.start, times.end, times.put};
  }

  /// Runs what all ranks of a replica run together, once the last one is ready.
  bool run_joint(std::size_t r, std::size_t p, const Action& action) {
    RankState& rank = ranks_[r * per_replica_ + p];
    const std::int64_t& end = joint_[r].of(action.pass).end[action.pack.index()];
    const bool first_to_go_on = end == kUnknown;
    if (!joint_[r].join(p, action, rank.free_at)) return false;
    for (std::size_t other = 0; first_to_go_on && other < per_replica_; ++other)
      log(r, end,
          {Operation::kCompute,
           {placement_.stage(static_cast<std::int32_t>(other), 0), action.pass, action.pack}});
    rank.free_at = end;
    ++rank.next;
    return true;
  }

  /// Runs weight gradients, which wait for no other stage or replica.
  void run_weight(std::size_t r, RankState& rank, const Action& action) {
    PassTimes& own = state_of(r, action.stage.index()).weight;
    own.start[action.pack.index()] = rank.free_at;
    rank.free_at += duration_of(r, action);
    own.end[action.pack.index()] = own.put[action.pack.index()] = rank.free_at;
    log(r, rank.free_at, {Operation::kCompute, action});
    ++rank.next;
  }

  void log(std::size_t r, std::int64_t time, const Instruction& instruction) {
    if (log_ != nullptr) log_->push_back({time, r, instruction});
  }

  /// Starts the action if its input has arrived and, for a merged pack, all replicas are ready.
  bool start(std::size_t r, std::size_t p, const Action& action, PassTimes& own) {
    RankState& rank = ranks_[r * per_replica_ + p];
    const std::size_t s = action.stage.index();
    const std::size_t pack = action.pack.index();
    std::int64_t start = 0;
    std::int64_t duration = duration_of(r, action);
    if (!rank.arrived) {
      const std::int64_t arrival = arrival_of(r, action);
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
      if (arrives) log_merged(r, p, action, start + duration);
    } else if (const Action* partner = exchanges_[r].partner(action)) {
      start = exchanges_[r].join(action, start);
      if (start == kUnknown) return false;
      log_exchange(r, start, action, *partner);
    } else {
      log(r, start + duration, {Operation::kCompute, action});
    }
    own.start[pack] = start;
    rank.free_at = own.end[pack] = start + duration;
    return true;
  }

  /// Both actions stand where the first of them ends: its sends must find the other action before
  /// them in the log. The first of them that starts logs both.
  void log_exchange(std::size_t r, std::int64_t start, const Action& action,
                    const Action& partner) {
    const PassTimes& other = times_of(state_of(r, partner.stage.index()), partner.pass);
    if (other.start[partner.pack.index()] != kUnknown) return;
    const std::int64_t end = start + std::min(duration_of(r, action), duration_of(r, partner));
    log(r, end, {Operation::kCompute, action});
    log(r, end, {Operation::kCompute, partner});
  }

  /// The replicas of a merged pack run it together, so nothing stands between their events.
  void log_merged(std::size_t r, std::size_t p, const Action& action, std::int64_t end) {
    const auto& packs = replicas_[r].packs.of(action.pass);
    const auto size = static_cast<std::size_t>(packs[action.pack.index()].replicas);
    for (std::size_t m = r - r % size; m < r - r % size + size; ++m)
      log(m, end, {Operation::kCompute, schedules_[m].ranks[p][ranks_[m * per_replica_ + p].next]});
  }

  /// Runs all actions that can run on rank p of replica r. Returns the number of finished and sent
  /// actions.
  std::size_t advance(std::size_t r, std::size_t p) {
    RankState& rank = ranks_[r * per_replica_ + p];
    const auto& actions = schedules_[r].ranks[p];
    const std::size_t first = rank.next;
    while (rank.next < actions.size()) {
      const Action action = actions[rank.next];
      if (action.pass == Pass::kWeightGradient) {
        run_weight(r, rank, action);
        continue;
      }
      if (is_joint(action.pass)) {
        if (!run_joint(r, p, action)) break;
        continue;
      }
      PassTimes& own = times_of(state_of(r, action.stage.index()), action.pass);
      if (!rank.holds_output && !start(r, p, action, own)) break;
      const std::int64_t slot = slot_for(r, action);
      rank.holds_output = slot == kUnknown;
      if (rank.holds_output) break;
      rank.free_at = std::max(rank.free_at, slot);
      own.put[action.pack.index()] = rank.free_at;
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
      const std::size_t r = i / per_replica_;
      const Action action = schedules_[r].ranks[i % per_replica_][ranks_[i].next];
      any |= barriers_.times(r, action.pass, action.pack.index(), action.stage.index()).known;
    }
    return any;
  }

  /// When the input of an action arrives; kUnknown until its sender is simulated.
  [[nodiscard]] std::int64_t arrival_of(std::size_t r, const Action& action) const {
    if (!has_input(action, stages_)) return 0;
    const bool forward = action.pass == Pass::kForward;
    const std::size_t s = action.stage.index();
    const StageState& sender = state_of(r, forward ? s - 1 : s + 1);
    const TaskTimes& times = replicas_[r].times;
    const std::int64_t put = times_of(sender, action.pass).put[action.pack.index()];
    const std::int64_t posted = posted_at(r, action);
    if (put == kUnknown || posted == kUnknown) return kUnknown;
    const auto& transfers = forward ? times.forward_transfer : times.backward_transfer;
    return std::max(put, posted) + transfers[action.pack.index()].count();
  }

  /// When the receive of an action's input is posted; kUnknown until that is simulated.
  [[nodiscard]] std::int64_t posted_at(std::size_t r, const Action& action) const {
    const Instruction* before = posts_.before(r, action);
    if (before == nullptr) return 0;
    const PassView times = times_of_action(r, before->action);
    const std::size_t pack = before->action.pack.index();
    if (before->operation == Operation::kSend) return times.put[pack];
    return times.start[pack] == kUnknown ? kUnknown : times.end[pack];
  }

  /// When the slot for an action's output is free: when the receiver starts the action that takes
  /// the message `slots` before this one.
  [[nodiscard]] std::int64_t slot_for(std::size_t r, const Action& action) const {
    const std::size_t pack = action.pack.index();
    if (pack < slots_ || !has_output(action, stages_)) return 0;
    const std::size_t s = action.stage.index();
    const StageState& receiver = state_of(r, action.pass == Pass::kForward ? s + 1 : s - 1);
    return times_of(receiver, action.pass).start[pack - slots_];
  }

  /// The time that is left of the rank's reduction after its last action.
  [[nodiscard]] Nanos reduction_of(std::size_t r, std::size_t p) const {
    const TaskTimes& times = replicas_[r].times;
    const auto& actions = schedules_[r].ranks[p];
    return times.reduce_after(actions.empty() ? Pass::kBackward : actions.back().pass, p);
  }

  void end_step() {
    for (std::size_t p = 0; p < per_replica_; ++p) {
      std::int64_t ran = 0;
      std::int64_t reduced = 0;
      for (std::size_t r = 0; r < replicas_.size(); ++r) {
        const std::int64_t end = ranks_[r * per_replica_ + p].free_at;
        ran = std::max(ran, end);
        reduced = std::max(reduced, end + reduction_of(r, p).count());
      }
      reduce_start_.push_back(ran);
      reduced_.push_back(reduced);
      all_reduced_ = std::max(all_reduced_, reduced);
    }
  }

  [[nodiscard]] Nanos busy_of(std::size_t r, std::size_t p) const {
    std::int64_t busy = replicas_[r].times.step_end[p].count() + reduced_[p] - reduce_start_[p];
    for (const StageId s : stages_of(p)) {
      const StageState& stage = state_of(r, s.index());
      for (const PassTimes* pass : {&stage.forward, &stage.backward, &stage.weight})
        for (std::size_t k = 0; k < pass->start.size(); ++k)
          if (pass->start[k] != kUnknown) busy += pass->end[k] - pass->start[k];
    }
    for (const std::vector<Nanos>& pass : replicas_[r].times.joint)
      for (const Nanos duration : pass) busy += duration.count();
    return Nanos(busy);
  }

  [[nodiscard]] RankTimes rank_times(std::size_t r, std::size_t p) const {
    const TaskBytes& bytes = replicas_[r].bytes;
    RankTimes out{schedules_[r].ranks[p], placement_, {}, {}};
    for (const Pass pass : kJointPasses)
      out.joint[joint_index(pass)] = {joint_[r].of(pass).start, joint_[r].of(pass).end};
    for (const StageId stage_id : stages_of(p)) {
      const std::size_t s = stage_id.index();
      const StageState& own = state_of(r, s);
      StageTimes& stage = out.stages.emplace_back();
      stage.forward = {own.forward.start, own.forward.end};
      stage.backward = {own.backward.start, own.backward.end};
      stage.weight = {own.weight.start, own.weight.end};
      if (s > 0) stage.forward_inputs = {state_of(r, s - 1).forward.put, bytes.forward_input};
      if (s + 1 < stages_)
        stage.backward_inputs = {state_of(r, s + 1).backward.put, bytes.backward_input};
    }
    return out;
  }

  void draw(std::size_t r, std::size_t p, std::vector<Span>& spans) const {
    const TaskTimes& times = replicas_[r].times;
    std::int64_t at = 0;
    const auto until = [&](SpanKind kind, PackId pack, std::int64_t end, std::size_t local = 0) {
      if (end > at)
        spans.push_back(
            {rank(r, p), kind, pack, static_cast<std::int32_t>(local), Nanos(at), Nanos(end)});
      at = std::max(at, end);
    };
    for (const Action& action : schedules_[r].ranks[p]) {
      const auto local = static_cast<std::size_t>(placement_.local_stage(action.stage));
      const PassView own = times_of_action(r, action);
      const std::size_t k = action.pack.index();
      until(SpanKind::kWaitReceive, action.pack, own.start[k], local);
      until(span_kind(action.pass), action.pack, own.end[k], local);
      until(SpanKind::kWaitSend, action.pack, own.put[k], local);
    }
    until(SpanKind::kWaitReceive, PackId(-1), reduce_start_[p]);
    until(SpanKind::kReduce, PackId(-1), reduced_[p]);
    until(SpanKind::kWaitReceive, PackId(-1), all_reduced_);
    until(SpanKind::kOptimizer, PackId(-1), all_reduced_ + times.step_end[p].count());
  }

  std::span<const ReplicaPacks> replicas_;
  std::span<const Schedule> schedules_;
  const StagePlacement& placement_;
  std::size_t per_replica_;  ///< ranks of a pipeline
  std::size_t stages_;
  std::size_t slots_;
  ReceivePosts posts_;
  ReplicaBarriers barriers_;
  std::vector<LoggedEvent>* log_;
  std::vector<RankState> ranks_;             ///< [replica · per_replica + rank]
  std::vector<StageState> stage_states_;     ///< [replica · stages + stage]
  std::vector<PipelineBarriers> joint_;      ///< by replica
  std::vector<ExchangeBarriers> exchanges_;  ///< by replica
  std::vector<std::int64_t> reduce_start_;   ///< by rank: when the last replica's has run all
  std::vector<std::int64_t> reduced_;        ///< by rank
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
  return lowered_by(std::move(log), schedules);
}

}  // namespace slimpack
