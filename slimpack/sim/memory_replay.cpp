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
      const ActionTimes& own = times_of(action.pass);
      const std::int64_t start = own.start[action.pack.index()];
      const std::int64_t end = own.end[action.pack.index()];
      take_puts_before(start);
      if (action.pass == Pass::kForward)
        consume(times_.forward_inputs, action.pack, next_forward_);
      else if (goes_back(action.pass))
        consume(times_.backward_inputs, action.pack, next_backward_);
      stores_ = ledger_.peak_of(action);
      sample(start);
      take_puts_before(end);
      ledger_.run(action);
      stores_ = ledger_.live();
      sample(end);
    }
    return peak_;
  }

 private:
  [[nodiscard]] const ActionTimes& times_of(Pass pass) const {
    if (pass == Pass::kForward) return times_.forward;
    return pass == Pass::kWeightGradient ? times_.weight : times_.backward;
  }

  void consume(const ArrivingInputs& inputs, PackId pack, std::size_t& next) {
    if (inputs.put.empty()) return;
    while (next <= pack.index()) take(inputs, next);
    waiting_ -= inputs.bytes[pack.index()];
  }

  /// Takes every put before `until`, in order of time. A put at `until` itself waits: the start of
  /// an action may have just made room for it.
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
