#include "slimpack/packflow/step/step_record.h"

#include <algorithm>

#include "slimpack/packflow/step/waiting_bytes.h"

namespace slimpack {

// In virtual time inputs wait beside the peak of the action that runs meanwhile. A device's peak is
// of all ranks of the process, so none of them may reset it.
StepRecord::StepRecord(std::int32_t rank, StageId first_stage, const RankClock& clock,
                       RankMemory memory, Bytes resident, std::size_t spans)
    : rank_(rank),
      first_stage_(first_stage),
      clock_(clock),
      memory_(memory),
      resident_(resident),
      by_action_(clock.is_virtual() && clock.device().is_cpu()) {
  spans_.reserve(spans);
}

void StepRecord::begin_action() {
  action_began_ = clock_.now();
  if (by_action_) memory_.reset_peak();
}

void StepRecord::end_action() {
  if (!actions_.empty()) actions_.back().end.mark.await();
  actions_.push_back(
      {action_began_, clock_.moment(), memory_.live() - resident_, memory_.peak() - resident_});
}

void StepRecord::end_actions() {
  last_peak_ = memory_.peak() - resident_;
}

void StepRecord::read(RankResult& result, std::span<const WaitedInput> inputs) const {
  for (const TimedSpan& span : spans_)
    result.spans.push_back({rank_, span.kind, span.pack, span.stage, clock_.time_of(span.begin),
                            clock_.time_of(span.end)});
  const WaitingBytes waiting(inputs);
  result.peak_activation = last_peak_;
  for (const TimedMemory& action : actions_) {
    const Nanos end = clock_.time_of(action.end);
    result.memory.push_back({rank_, end, action.live + waiting.at(end)});
    result.peak_activation =
        std::max(result.peak_activation, action.peak + waiting.most(action.begin, end));
  }
}

}  // namespace slimpack
