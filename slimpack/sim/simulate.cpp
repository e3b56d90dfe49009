// Steps: sweep over the stages, up and down the pipeline in turn; each runs as many actions as it
// has inputs and output slots for. Every time is a maximum of times known before, so the order of
// the sweeps does not matter and no event queue is needed. Then replay the memory of each stage,
// and draw the spans if asked to.
#include "slimpack/sim/simulate.h"

#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/sim/memory_replay.h"

namespace slimpack {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// Start and put time of one pass's packs on one stage.
struct PassTimes {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> put;  ///< end of the action, or later when its channel was full
};

struct StageState {
  PassTimes forward;
  PassTimes backward;
  std::size_t next = 0;
  std::int64_t free_at = 0;
  bool holds_output = false;  ///< action `next` has run, its output waits for a slot
};

class Simulator {
 public:
  Simulator(const PackPlan& packs, const Schedule& schedule, const TaskTimes& times,
            const TaskBytes& bytes, const SimulationOptions& options)
      : packs_(packs),
        schedule_(schedule),
        times_(times),
        bytes_(bytes),
        slots_(static_cast<std::size_t>(options.slots)),
        stages_(schedule.stages.size()) {
    SLIMPACK_CHECK(options.slots >= 1 && !stages_.empty() &&
                   times.forward.size() == stages_.size() && bytes.rows.size() == stages_.size());
    for (StageState& stage : stages_)
      for (PassTimes* pass : {&stage.forward, &stage.backward}) {
        const std::size_t count =
            pass == &stage.forward ? packs.forward.size() : packs.backward.size();
        pass->start.assign(count, kUnknown);
        pass->put.assign(count, kUnknown);
      }
  }

  void run() {
    std::size_t left = 0;
    for (const auto& actions : schedule_.stages) left += actions.size();
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t s = 0; s < stages_.size(); ++s) left -= advance(s);
      for (std::size_t s = stages_.size(); s-- > 0;) left -= advance(s);
      SLIMPACK_CHECK(left < before, "deadlock with {} actions left", left);
    }
    for (const StageState& stage : stages_) work_end_ = std::max(work_end_, stage.free_at);
  }

  SimulationResult result(bool with_timeline) {
    SimulationResult result;
    result.timeline.origin = "predicted";
    result.timeline.ranks = static_cast<std::int32_t>(stages_.size());
    const RowFlow flow = row_flow(packs_);
    std::int64_t busy = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      result.busy.push_back(busy_of(s));
      busy += result.busy.back().count();
      result.makespan = std::max(result.makespan, Nanos(work_end_) + times_.step_end[s]);
      result.peak_activation.push_back(
          replay_memory(stage_times(s), ActivationLedger(flow, bytes_, StageId(s)),
                        with_timeline ? &result.timeline.memory : nullptr));
      if (with_timeline) draw(s, result.timeline.spans);
    }
    result.timeline.peak_activation = result.peak_activation;
    const double whole =
        static_cast<double>(stages_.size()) * static_cast<double>(result.makespan.count());
    result.bubble_ratio = whole > 0 ? 1 - static_cast<double>(busy) / whole : 0;
    result.lower_bound = makespan_lower_bound(packs_, times_);
    return result;
  }

 private:
  [[nodiscard]] std::int64_t duration(std::size_t s, const Action& action) const {
    return (action.pass == Pass::kForward ? times_.forward
                                          : times_.backward)[s][action.pack.index()]
        .count();
  }

  /// Runs what can run on stage s; returns the number of actions that were finished and sent.
  std::size_t advance(std::size_t s) {
    StageState& stage = stages_[s];
    const auto& actions = schedule_.stages[s];
    const std::size_t first = stage.next;
    while (stage.next < actions.size()) {
      const Action action = actions[stage.next];
      const std::size_t pack = action.pack.index();
      const bool forward = action.pass == Pass::kForward;
      PassTimes& own = forward ? stage.forward : stage.backward;
      if (!stage.holds_output) {
        const std::int64_t arrival = arrival_of(s, forward, pack);
        if (arrival == kUnknown) break;
        own.start[pack] = std::max(stage.free_at, arrival);
        stage.free_at = own.start[pack] + duration(s, action);
      }
      const std::int64_t slot = slot_for(s, forward, pack);
      stage.holds_output = slot == kUnknown;
      if (stage.holds_output) break;
      stage.free_at = std::max(stage.free_at, slot);
      own.put[pack] = stage.free_at;
      ++stage.next;
    }
    return stage.next - first;
  }

  /// When the input of an action is there; kUnknown until its sender has been simulated.
  [[nodiscard]] std::int64_t arrival_of(std::size_t s, bool forward, std::size_t pack) const {
    if (forward) {
      if (s == 0) return 0;
      const std::int64_t put = stages_[s - 1].forward.put[pack];
      return put == kUnknown ? kUnknown : put + times_.forward_transfer[pack].count();
    }
    if (s + 1 == stages_.size()) return 0;
    const std::int64_t put = stages_[s + 1].backward.put[pack];
    return put == kUnknown ? kUnknown : put + times_.backward_transfer[pack].count();
  }

  /// When the slot for an action's output is free: the receiver has started the action that takes
  /// the message `slots` before.
  [[nodiscard]] std::int64_t slot_for(std::size_t s, bool forward, std::size_t pack) const {
    if (pack < slots_) return 0;
    if (forward) return s + 1 == stages_.size() ? 0 : stages_[s + 1].forward.start[pack - slots_];
    return s == 0 ? 0 : stages_[s - 1].backward.start[pack - slots_];
  }

  [[nodiscard]] Nanos busy_of(std::size_t s) const {
    Nanos busy = times_.step_end[s];
    for (const Nanos time : times_.forward[s]) busy += time;
    for (const Nanos time : times_.backward[s]) busy += time;
    return busy;
  }

  [[nodiscard]] StageTimes stage_times(std::size_t s) const {
    StageTimes out{StageId(s),
                   schedule_.stages[s],
                   stages_[s].forward.start,
                   stages_[s].backward.start,
                   times_.forward[s],
                   times_.backward[s],
                   {},
                   {}};
    if (s > 0) out.forward_inputs = {stages_[s - 1].forward.put, bytes_.forward_input};
    if (s + 1 < stages_.size())
      out.backward_inputs = {stages_[s + 1].backward.put, bytes_.backward_input};
    return out;
  }

  void draw(std::size_t s, std::vector<Span>& spans) const {
    const auto rank = static_cast<std::int32_t>(s);
    std::int64_t at = 0;
    const auto until = [&](SpanKind kind, PackId pack, std::int64_t end) {
      if (end > at) spans.push_back({rank, kind, pack, Nanos(at), Nanos(end)});
      at = std::max(at, end);
    };
    for (const Action& action : schedule_.stages[s]) {
      const bool forward = action.pass == Pass::kForward;
      const PassTimes& own = forward ? stages_[s].forward : stages_[s].backward;
      const std::int64_t start = own.start[action.pack.index()];
      until(SpanKind::kWaitReceive, action.pack, start);
      until(forward ? SpanKind::kForward : SpanKind::kBackward, action.pack,
            start + duration(s, action));
      until(SpanKind::kWaitSend, action.pack, own.put[action.pack.index()]);
    }
    until(SpanKind::kWaitReceive, PackId(-1), work_end_);
    until(SpanKind::kOptimizer, PackId(-1), work_end_ + times_.step_end[s].count());
  }

  const PackPlan& packs_;
  const Schedule& schedule_;
  const TaskTimes& times_;
  const TaskBytes& bytes_;
  std::size_t slots_;
  std::vector<StageState> stages_;
  std::int64_t work_end_ = 0;
};

}  // namespace

double SimulationResult::gap() const {
  return lower_bound > Nanos(0)
             ? static_cast<double>(makespan.count()) / static_cast<double>(lower_bound.count()) - 1
             : 0;
}

SimulationResult simulate(const PackPlan& packs, const Schedule& schedule, const TaskTimes& times,
                          const TaskBytes& bytes, const SimulationOptions& options) {
  Simulator simulator(packs, schedule, times, bytes, options);
  simulator.run();
  return simulator.result(options.timeline);
}

}  // namespace slimpack
