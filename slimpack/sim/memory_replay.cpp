#include "slimpack/sim/memory_replay.h"

#include <algorithm>
#include <utility>

namespace slimpack {
namespace {

class Replay {
 public:
  Replay(const StepGraph& graph, std::span<const StepNode> nodes, const TaskBytes& bytes,
         ActivationLedger ledger)
      : nodes_(nodes), ledger_(std::move(ledger)) {
    for (const StepNode& node : nodes) {
      Input& input = inputs_.emplace_back();
      if (node.sender == StepNode::kNone) continue;
      const auto& of =
          node.action.pass == Pass::kForward ? bytes.forward_input : bytes.backward_input;
      input.bytes = of[node.action.pack.index()];
      input.put = graph.node(node.sender).put;
      by_put_.push_back(inputs_.size() - 1);
    }
    std::ranges::stable_sort(by_put_, {}, [&](std::size_t node) { return inputs_[node].put; });
  }

  Bytes run(std::int32_t rank, std::vector<MemorySample>* samples) {
    rank_ = rank;
    samples_ = samples;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      take_puts_before(nodes_[i].start);
      if (nodes_[i].sender != StepNode::kNone) consume(inputs_[i]);
      stores_ = ledger_.peak_of(nodes_[i].action);
      sample(nodes_[i].start);
      take_puts_before(nodes_[i].end);
      ledger_.run(nodes_[i].action);
      stores_ = ledger_.live();
      sample(nodes_[i].end);
    }
    return peak_;
  }

 private:
  /// The input of a node, if it has one.
  struct Input {
    std::int64_t put = 0;
    Bytes bytes;
    bool taken = false;  ///< has been put
  };

  /// Takes every put before `until`. A put at `until` itself waits: the start of an action may have
  /// just made room for it.
  void take_puts_before(std::int64_t until) {
    for (; next_ < by_put_.size() && inputs_[by_put_[next_]].put < until; ++next_)
      take(inputs_[by_put_[next_]]);
  }

  void consume(Input& input) {
    take(input);
    waiting_ -= input.bytes;
  }

  void take(Input& input) {
    if (std::exchange(input.taken, true)) return;
    waiting_ += input.bytes;
    sample(input.put);
  }

  void sample(std::int64_t time) {
    const Bytes now = stores_ + waiting_;
    peak_ = std::max(peak_, now);
    if (samples_ != nullptr) samples_->push_back({rank_, Nanos(time), now});
  }

  std::span<const StepNode> nodes_;
  ActivationLedger ledger_;
  std::vector<Input> inputs_;        ///< by node
  std::vector<std::size_t> by_put_;  ///< nodes with inputs, in the order of the puts
  std::size_t next_ = 0;             ///< place in by_put_ of the next put
  Bytes stores_;                     ///< the ledger's bytes, during an action its peak
  Bytes waiting_;                    ///< inputs put and not yet consumed
  Bytes peak_;
  std::int32_t rank_ = 0;
  std::vector<MemorySample>* samples_ = nullptr;
};

}  // namespace

Bytes replay_memory(const StepGraph& graph, std::size_t replica, std::size_t rank,
                    ActivationLedger ledger, const TaskBytes& bytes,
                    std::vector<MemorySample>* samples) {
  const auto global = static_cast<std::int32_t>(replica * graph.ranks() + rank);
  return Replay(graph, graph.rank(replica, rank), bytes, std::move(ledger)).run(global, samples);
}

}  // namespace slimpack
