#include "slimpack/packflow/step/step_record.h"

namespace slimpack {

StepRecord::StepRecord(std::int32_t rank, const RankClock& clock, std::size_t spans)
    : rank_(rank), clock_(clock) {
  spans_.reserve(spans);
}

void StepRecord::end_action(Bytes live) {
  if (!memory_.empty()) memory_.back().moment.mark.await();
  memory_.push_back({clock_.moment(), live});
}

void StepRecord::read(RankResult& result) const {
  for (const TimedSpan& span : spans_)
    result.spans.push_back({rank_, span.kind, span.pack, span.local_stage,
                            clock_.time_of(span.begin), clock_.time_of(span.end)});
  for (const TimedMemory& memory : memory_)
    result.memory.push_back({rank_, clock_.time_of(memory.moment), memory.live});
}

}  // namespace slimpack
