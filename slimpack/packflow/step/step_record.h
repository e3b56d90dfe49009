// Step record: when a rank did what. A device is asked after the step, so that the host does not
// wait for it in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/step/rank_result.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

class StepRecord {
 public:
  /// `spans`: about how many there will be. Keeps a reference to the clock.
  StepRecord(std::int32_t rank, const RankClock& clock, std::size_t spans);

  /// Runs `work` of one of the rank's stages and records it. Of work on a device, the span is the
  /// device's.
  template <class Work>
  void timed(SpanKind kind, PackId pack, std::int32_t local_stage, Work work) {
    RankClock::Moment begin = clock_.moment();
    work();
    spans_.push_back({kind, pack, local_stage, std::move(begin), clock_.moment()});
  }
  /// The same, of no MicroPack.
  template <class Work>
  void timed(SpanKind kind, Work work) {
    timed(kind, PackId(-1), 0, std::move(work));
  }

  /// Notes the live bytes at the end of an action. The host waits for the action before it: it runs
  /// ahead of the device by one action, so that the device always has work, and no further, so that
  /// memory that two queues use comes back in time.
  void end_action(Bytes live);

  /// Waits for the device and adds spans and memory to the result.
  void read(RankResult& result) const;

 private:
  struct TimedSpan {
    SpanKind kind;
    PackId pack;
    std::int32_t local_stage;
    RankClock::Moment begin, end;
  };
  struct TimedMemory {
    RankClock::Moment moment;
    Bytes live;
  };

  std::int32_t rank_;
  const RankClock& clock_;
  std::vector<TimedSpan> spans_;
  std::deque<TimedMemory> memory_;
};

}  // namespace slimpack
