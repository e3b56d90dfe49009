#include "slimpack/sim/memory_replay.h"

#include <algorithm>

namespace slimpack {
namespace {

class Replay {
 public:
  Replay(const StageTimes& times, ActivationLedger ledger, std::int32_t rank,
         std::vector<MemorySample>* samples)
      : times_(times), ledger_(std::move(ledger)), rank_(rank), samples_(samples) {}

  Bytes run() {
    for (const Action& action : times_.actions) {
      const bool forward = action.pass == Pass::kForward;
      const std::size_t pack = action.pack.index();
      const std::int64_t start = (forward ? times_.forward_start : times_.backward_start)[pack];
      const std::int64_t end = (forward ? times_.forward_end : times_.backward_end)[pack];
      take_puts_before(start);
      const ArrivingInputs& inputs = forward ? times_.forward_inputs : times_.backward_inputs;
      if (!inputs.put.empty()) {
        std::size_t& next = forward ? next_forward_ : next_backward_;
        while (next <= pack) take(inputs, next);
        waiting_ -= inputs.bytes[pack];
      }
      stores_ =
          forward ? ledger_.peak_of_forward(action.pack) : ledger_.peak_of_backward(action.pack);
      sample(start);
      take_puts_before(end);
      if (forward)
        ledger_.forward(action.pack);
      else
        ledger_.backward(action.pack);
      stores_ = ledger_.live();
      sample(end);
    }
    return peak_;
  }

 private:
  /// Every put before `until`, in order of time. A put at that very moment may be one that the
  /// start of an action has just made room for.
  void take_puts_before(std::int64_t until) {
    for (;;) {
      const bool forward = has_put(times_.forward_inputs, next_forward_, until);
      const bool backward = has_put(times_.backward_inputs, next_backward_, until);
      if (!forward && !backward) return;
      if (forward && (!backward || times_.forward_inputs.put[next_forward_] <=
                                       times_.backward_inputs.put[next_backward_]))
        take(times_.forward_inputs, next_forward_);
      else
        take(times_.backward_inputs, next_backward_);
    }
  }

  static bool has_put(const ArrivingInputs& inputs, std::size_t next, std::int64_t until) {
    return next < inputs.put.size() && inputs.put[next] < until;
  }

  void take(const ArrivingInputs& inputs, std::size_t& next) {
    waiting_ += inputs.bytes[next];
    sample(inputs.put[next]);
    ++next;
  }

  void sample(std::int64_t time) {
    const Bytes now = stores_ + waiting_;
    peak_ = std::max(peak_, now);
    if (samples_ != nullptr) samples_->push_back({rank_, Nanos(time), now});
  }

  const StageTimes& times_;
  ActivationLedger ledger_;
  std::int32_t rank_;
  std::vector<MemorySample>* samples_;
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  Bytes stores_;   ///< the ledger's bytes, during an action its peak
  Bytes waiting_;  ///< inputs put and not yet taken
  Bytes peak_;
};

}  // namespace

Bytes replay_memory(const StageTimes& times, ActivationLedger ledger, std::int32_t rank,
                    std::vector<MemorySample>* samples) {
  return Replay(times, std::move(ledger), rank, samples).run();
}

}  // namespace slimpack
