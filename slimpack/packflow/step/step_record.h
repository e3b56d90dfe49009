// Step record: when a rank did what, and what it held, and the result of it for one rank and for
// all. A device is asked after the step, so that the host does not wait for it in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The outcome of a step's update.
enum class UpdateOutcome : std::uint8_t {
  kNone,       ///< none was asked for
  kMade,       ///< parameters are updated, and finite
  kRefused,    ///< the gradient norm is not finite or too large: parameters are untouched
  kNotFinite,  ///< some updated parameters are not finite numbers
};

struct RankResult {
  double loss_sum = 0;  ///< over all ranks
  double gradient_norm = 0;
  UpdateOutcome update = UpdateOutcome::kNone;  ///< of this rank's parameters
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  Bytes peak_activation;
};

/// Measurements and outcomes of all members of a group.
struct AllRanks {
  /// The spans, samples and peaks of all members by index, at the first of them; elsewhere none.
  Timeline timeline;
  UpdateOutcome update = UpdateOutcome::kNone;  ///< kNotFinite if it is that of any member
};
[[nodiscard]] AllRanks gathered(const RankResult& own, Collective& group);

/// The bytes that lay in a rank's inboxes, by the rank's clock. Each input waits from the time it
/// was put until the time it was taken.
class WaitingBytes {
 public:
  /// Cost: O(inputs · log(inputs)).
  explicit WaitingBytes(std::span<const WaitedInput> inputs);

  /// From `time` on. Cost: O(log(inputs)).
  [[nodiscard]] Bytes at(Nanos time) const;
  /// The most at any time of [begin, end). Cost: O(log(inputs) + changes between the two).
  [[nodiscard]] Bytes most(Nanos begin, Nanos end) const;

 private:
  using Level = std::pair<Nanos, Bytes>;  ///< so many bytes from then on
  [[nodiscard]] std::vector<Level>::const_iterator after(Nanos time) const;

  std::vector<Level> levels_;  ///< ascending by time
};

class StepRecord {
 public:
  /// `resident`: bytes of the memory that are no activations. `spans`: about how many there will
  /// be. Keeps a reference to the clock.
  StepRecord(std::int32_t rank, StageId first_stage, const RankClock& clock, RankMemory memory,
             Bytes resident, std::size_t spans);

  /// Runs `work` of one of the rank's stages and records it. The span of work on a device is the
  /// device's.
  template <class Work>
  void timed(SpanKind kind, PackId pack, StageId stage, Work work) {
    RankClock::Moment begin = clock_.moment();
    work();
    spans_.push_back({kind, pack, stage, std::move(begin), clock_.moment()});
  }
  /// Runs and records `work` that belongs to no MicroPack.
  template <class Work>
  void timed(SpanKind kind, Work work) {
    timed(kind, PackId(-1), first_stage_, std::move(work));
  }

  /// Tells the record that the rank has the action's input.
  void begin_action();
  /// Notes what the rank holds at the end of an action. The host waits for the action before it: it
  /// runs ahead of the device by one action, so that the device always has work, and no further, so
  /// that memory that two queues use comes back in time.
  void end_action();
  /// Ends the actions: memory that is allocated from now on is no activation.
  void end_actions();

  /// Waits for the device and adds spans and memory to the result. `inputs`: those that the memory
  /// did not count while they waited. They count for an action as if its peak lasted as long as it,
  /// as the simulator counts them.
  void read(RankResult& result, std::span<const WaitedInput> inputs) const;

 private:
  struct TimedSpan {
    SpanKind kind;
    PackId pack;
    StageId stage;
    RankClock::Moment begin, end;
  };
  struct TimedMemory {
    Nanos begin;  ///< on the host
    RankClock::Moment end;
    Bytes live;  ///< at the end
    Bytes peak;  ///< during the action, or since the step began
  };

  std::int32_t rank_;
  StageId first_stage_;  ///< of the rank
  const RankClock& clock_;
  RankMemory memory_;
  Bytes resident_;
  bool by_action_;  ///< peaks are of single actions
  Nanos action_began_;
  std::vector<TimedSpan> spans_;
  std::deque<TimedMemory> actions_;
  Bytes last_peak_;
};

}  // namespace slimpack
