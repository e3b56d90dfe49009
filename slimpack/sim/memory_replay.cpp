#include "slimpack/sim/memory_replay.h"

#include <algorithm>
#include <limits>

namespace slimpack {
namespace {

class Replay {
 public:
  Replay(const RankTimes& times, ActivationLedger ledger, std::int32_t rank,
         std::vector<MemorySample>* samples)
      : times_(times), ledger_(std::move(ledger)), rank_(rank), samples_(samples) {
    for (const StageTimes& stage : times.stages)
      for (const ArrivingInputs* arriving : {&stage.forward_inputs, &stage.backward_inputs})
        inputs_.push_back({arriving, 0, arriving->put.empty() ? kNever : arriving->put.front()});
  }

  Bytes run() {
    for (const Action& action : times_.actions) {
      const auto stage = static_cast<std::size_t>(times_.placement.local_stage(action.stage));
      const ActionTimes& own = is_joint(action.pass) ? times_.joint[joint_index(action.pass)]
                                                     : times_of(times_.stages[stage], action.pass);
      const std::int64_t start = own.start[action.pack.index()];
      const std::int64_t end = own.end[action.pack.index()];
      take_puts_before(start);
      if (action.pass == Pass::kForward)
        consume(inputs_[2 * stage], action.pack);
      else if (goes_back(action.pass))
        consume(inputs_[2 * stage + 1], action.pack);
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
  /// The inputs of a stage in one direction.
  struct Inputs {
    const ArrivingInputs* arriving;
    std::size_t next;
    std::int64_t next_put;  ///< kNever after the last
  };
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  static const ActionTimes& times_of(const StageTimes& stage, Pass pass) {
    if (pass == Pass::kForward) return stage.forward;
    return pass == Pass::kWeightGradient ? stage.weight : stage.backward;
  }

  void consume(Inputs& inputs, PackId pack) {
    if (inputs.arriving->put.empty()) return;
    while (inputs.next <= pack.index()) take(inputs);
    waiting_ -= inputs.arriving->bytes[pack.index()];
  }

  /// Takes every put before `until`, in order of time. A put at `until` itself waits: the start of
  /// an action may have just made room for it.
  void take_puts_before(std::int64_t until) {
    for (;;) {
      const auto first = std::ranges::min_element(inputs_, {}, &Inputs::next_put);
      if (first->next_put >= until) return;
      take(*first);
    }
  }

  void take(Inputs& inputs) {
    waiting_ += inputs.arriving->bytes[inputs.next];
    sample(inputs.next_put);
    ++inputs.next;
    const auto& put = inputs.arriving->put;
    inputs.next_put = inputs.next < put.size() ? put[inputs.next] : kNever;
  }

  void sample(std::int64_t time) {
    const Bytes now = stores_ + waiting_;
    peak_ = std::max(peak_, now);
    if (samples_ != nullptr) samples_->push_back({rank_, Nanos(time), now});
  }

  const RankTimes& times_;
  ActivationLedger ledger_;
  std::int32_t rank_;
  std::vector<MemorySample>* samples_;
  std::vector<Inputs> inputs_;  ///< by stage of the rank: forward and backward
  Bytes stores_;                ///< the ledger's bytes, during an action its peak
  Bytes waiting_;               ///< inputs put and not yet taken
  Bytes peak_;
};

}  // namespace

Bytes replay_memory(const RankTimes& times, ActivationLedger ledger, std::int32_t rank,
                    std::vector<MemorySample>* samples) {
  return Replay(times, std::move(ledger), rank, samples).run();
}

}  // namespace slimpack
