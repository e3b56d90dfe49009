// Steps: run the step graph; let every rank reduce its gradients and end the step; replay the
// memory of each rank; make the spans if they are wanted.
#include "slimpack/sim/simulate.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/step_graph.h"

namespace slimpack {
namespace {

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

/// When ranks have run all their actions, by rank of the pipeline.
struct StepEnd {
  std::vector<std::int64_t> ran;      ///< the last replica's
  std::vector<std::int64_t> reduced;  ///< its gradients
  std::int64_t all_reduced = 0;

  explicit StepEnd(std::size_t ranks) : ran(ranks), reduced(ranks) {}

  void add(std::size_t replica, const TaskTimes& times, const StepGraph& graph) {
    for (std::size_t p = 0; p < ran.size(); ++p) {
      const std::span<const StepNode> nodes = graph.rank(replica, p);
      const std::int64_t end = nodes.empty() ? 0 : nodes.back().put;
      const Pass last = nodes.empty() ? Pass::kBackward : nodes.back().action.pass;
      ran[p] = std::max(ran[p], end);
      reduced[p] = std::max(reduced[p], end + times.reduce_after(last, p).count());
      all_reduced = std::max(all_reduced, reduced[p]);
    }
  }
};

Nanos busy_time(std::span<const StepNode> nodes) {
  std::int64_t busy = 0;
  for (const StepNode& node : nodes) busy += node.duration;
  return Nanos(busy);
}

/// Appends what rank p of a replica does; it is rank `rank` of the timeline.
void draw(std::span<const StepNode> nodes, const StagePlacement& placement, const StepEnd& step,
          std::size_t p, Nanos step_end, std::int32_t rank, std::vector<Span>& spans) {
  std::int64_t at = 0;
  const auto until = [&](SpanKind kind, PackId pack, std::int64_t end, StageId stage) {
    if (end > at) spans.push_back({rank, kind, pack, stage, Nanos(at), Nanos(end)});
    at = std::max(at, end);
  };
  for (const StepNode& node : nodes) {
    const Action& action = node.action;
    until(SpanKind::kWaitReceive, action.pack, node.start, action.stage);
    until(span_kind(action.pass), action.pack, node.end, action.stage);
    until(SpanKind::kWaitSend, action.pack, node.put, action.stage);
  }
  const StageId first = placement.stage(static_cast<std::int32_t>(p), 0);
  until(SpanKind::kWaitReceive, PackId(-1), step.ran[p], first);
  until(SpanKind::kReduce, PackId(-1), step.reduced[p], first);
  until(SpanKind::kWaitReceive, PackId(-1), step.all_reduced, first);
  until(SpanKind::kOptimizer, PackId(-1), step.all_reduced + step_end.count(), first);
}

/// Replays the memory of one rank: the ledger's bytes, plus each input from its put until its
/// action starts. A put at the very moment of a start or an end counts after it, unless it is the
/// input of that start.
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

SimulationResult simulate(std::span<const ReplicaPacks> replicas, std::span<const Schedule> orders,
                          const SimulationOptions& options) {
  const StepGraph graph = timed_graph(replicas, orders, options.slots);
  StepEnd step(graph.ranks());
  for (std::size_t r = 0; r < replicas.size(); ++r) step.add(r, replicas[r].times, graph);
  const auto ranks = static_cast<std::int32_t>(graph.ranks());
  SimulationResult result;
  Timeline& timeline = result.timeline;
  timeline.origin = "predicted";
  timeline.replicas = static_cast<std::int32_t>(replicas.size());
  timeline.ranks = timeline.replicas * ranks;
  std::int64_t busy = 0;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const ReplicaPacks& replica = replicas[r];
    SLIMPACK_CHECK(replica.bytes.rows.size() == orders[r].stages());
    const RowFlow flow = row_flow(replica.packs);
    for (std::size_t p = 0; p < graph.ranks(); ++p) {
      const Nanos step_end = replica.times.step_end[p];
      const std::int32_t rank = static_cast<std::int32_t>(r) * ranks + static_cast<std::int32_t>(p);
      result.busy.push_back(busy_time(graph.rank(r, p)) + step_end +
                            Nanos(step.reduced[p] - step.ran[p]));
      busy += result.busy.back().count();
      result.makespan = std::max(result.makespan, Nanos(step.all_reduced) + step_end);
      const StagePlacement& placement = orders[r].placement;
      result.peak_activation.push_back(
          Replay(graph, graph.rank(r, p), replica.bytes,
                 ActivationLedger(flow, replica.bytes, p, placement))
              .run(rank, options.timeline ? &timeline.memory : nullptr));
      if (options.timeline)
        draw(graph.rank(r, p), placement, step, p, step_end, rank, timeline.spans);
    }
  }
  timeline.peak_activation = result.peak_activation;
  const double whole =
      static_cast<double>(timeline.ranks) * static_cast<double>(result.makespan.count());
  result.bubble_ratio = whole > 0 ? 1 - static_cast<double>(busy) / whole : 0;
  return result;
}

Nanos simulated_makespan(std::span<const ReplicaPacks> replicas, std::span<const Schedule> orders,
                         int slots) {
  const StepGraph graph = timed_graph(replicas, orders, slots);
  StepEnd step(graph.ranks());
  for (std::size_t r = 0; r < replicas.size(); ++r) step.add(r, replicas[r].times, graph);
  Nanos last;
  for (const ReplicaPacks& replica : replicas)
    last = std::max(last, std::ranges::max(replica.times.step_end));
  return Nanos(step.all_reduced) + last;
}

Nanos order_bound(const Schedule& schedule, const TaskTimes& times) {
  StepGraph graph(std::span(&schedule, 1));
  graph.set_times(0, times);
  graph.run();
  StepEnd step(graph.ranks());
  step.add(0, times, graph);
  return Nanos(step.all_reduced) + std::ranges::max(times.step_end);
}

}  // namespace slimpack
