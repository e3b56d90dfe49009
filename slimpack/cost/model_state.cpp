// The bytes that a rank holds beside activations: its part of the model's state, and what is on its
// way to or from other processes.
#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/cost/reduction.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {
namespace {

/// The most that so many messages of one direction have together, which leave one after the other.
Bytes largest(const std::vector<Bytes>& messages, std::size_t together) {
  Bytes most, sum;
  for (std::size_t m = 0; m < messages.size(); ++m) {
    sum += messages[m];
    if (m >= together) sum -= messages[m - together];
    most = std::max(most, sum);
  }
  return most;
}

/// Bytes that a rank holds while `replicas` replicas sum `gradients`. In a direct exchange they are
/// the other replicas' parts of the rank's own shard. In an exchange by blocks they are copies of
/// what the rank sends and, for each other member of its block, a part of every shard that the rank
/// sums.
Bytes reductions(Bytes gradients, std::int32_t replicas) {
  const std::vector<MemberBlock> blocks = member_blocks(replicas);
  if (blocks.size() == 1) return gradients / replicas * (replicas - 1);
  std::int64_t most = 0;  // shards
  for (const MemberBlock& own : blocks) {
    std::int64_t summed = 1;
    for (const MemberBlock& other : blocks)
      if (other != own) summed += share_of(other.size(), own.size());
    most = std::max(most, (own.size() - 1) * summed);
  }
  return gradients + gradients / replicas * most;
}

/// Bytes that a rank holds while replicas on these nodes sum `gradients`: those of the sum in the
/// node, if its replicas sum first, and those of the share that goes on to other nodes.
Bytes reductions(Bytes gradients, const NodePlacement& placement) {
  const std::int32_t in_node = placement.replicas_summed_in_node();
  return reductions(gradients, in_node) +
         reductions(gradients / in_node, placement.replicas / in_node);
}

}  // namespace

Costs with_optimizer_on_host(Costs cost) {
  SLIMPACK_CHECK(cost.autograd && cost.host.optimizer_per_parameter > 0);
  cost.optimizer_per_parameter = cost.host.optimizer_per_parameter;
  cost.host.state_per_parameter = std::exchange(cost.autograd->state.optimizer, 0);
  return cost;
}

Bytes StageTable::host_memory() const {
  const Bytes memory = bound_->cost.host.memory;
  if (memory == Bytes(0)) return memory;
  Bytes most;
  for (std::int32_t rank = 0; rank < layout().ranks(); ++rank)
    most = std::max(most, state(rank).host);
  return std::max(Bytes(1), memory - most);
}

ModelState StageTable::state(std::int32_t rank) const {
  const Costs& cost = bound_->cost;
  RankParameters parameters;
  const auto keep_larger = [](ParameterCount& most, const ParameterCount& other) {
    most = {std::max(most.frozen, other.frozen), std::max(most.trained, other.trained)};
  };
  for (const StageId stage : layout().placement.stages_of(rank)) {
    const ParameterCount own = stage_parameters(cost, layout(), stage);
    parameters.held.frozen += share_of(own.frozen, cost.tp);
    parameters.held.trained += share_of(own.trained, cost.tp);
    keep_larger(parameters.bucket, largest_bucket(cost, layout(), stage));
    ParameterCount ends = own;
    for (std::int32_t l = bound_->first_layer(stage); l < bound_->end_layer(stage); ++l) {
      const auto kind = cost.shape.kind_of(static_cast<std::size_t>(l));
      const ParameterCount layer = layer_parameters(cost, kind);
      keep_larger(parameters.layer, layer);
      ends = {ends.frozen - layer.frozen, ends.trained - layer.trained};
    }
    parameters.ends.frozen += share_of(ends.frozen, cost.tp);
    parameters.ends.trained += share_of(ends.trained, cost.tp);
  }
  return bound_->state(parameters);
}

ModelState PackFlowStages::state(const RankParameters& rank) const {
  const ParameterCount &held = rank.held, &bucket = rank.bucket;
  const std::int64_t accumulator = accumulator_bytes(cost.dtype);
  const WeightBytes weight = weight_bytes(cost);
  const bool copies = weight.trained < static_cast<double>(accumulator);
  // A rank has two buckets whole of what is shared out: one that runs and one that travels.
  const auto shared = [&](std::int64_t own, std::int64_t largest) {
    return std::min(own, share_of(own, replication.replicas) + 2 * share_of(largest, cost.tp));
  };
  const ParameterCount parts{shared(held.frozen, bucket.frozen),
                             shared(held.trained, bucket.trained)};
  return {Bytes(static_cast<std::int64_t>(weight.of(cost.zero == 3 ? parts : held))),
          Bytes((cost.zero >= 2 ? parts : held).trained * accumulator),
          Bytes(share_of(held.trained, replication.replicas) * (copies ? 3 : 2) * accumulator),
          Bytes(0)};
}

Bytes StageTable::gradients_in_flight(std::int32_t rank) const {
  // With ZeRO-2 and 3 a bucket at a time, and ModelState has it.
  if (!bound_->holds_what_travels() || bound_->cost.zero > 1) return Bytes(0);
  return reductions(state(rank).gradients, placement());
}

void StageTable::add_in_flight(TaskBytes& bytes, Counted counted) const {
  if (!bound_->holds_what_travels() || counted < Counted::kMessages) return;
  const Bytes to_next = largest(bytes.forward_input, kHeldSends);
  const Bytes to_previous = largest(bytes.backward_input, kHeldSends);
  const Bytes from_previous = largest(bytes.forward_input, 1);
  const Bytes from_next = largest(bytes.backward_input, 1);
  for (std::int32_t s = 0; s < layout().stages(); ++s) {
    Bytes messages;
    // Messages of a rank's other stages travel meanwhile.
    const bool others = layout().placement.stages_per_rank() > 1;
    if (others || s > 0) messages += to_previous + from_previous;
    if (others || s + 1 < layout().stages()) messages += to_next + from_next;
    const auto stage = static_cast<std::size_t>(s);
    for (auto* transients : {&bytes.forward_transient, &bytes.backward_transient,
                             &bytes.input_transient, &bytes.weight_transient}) {
      if (transients->empty()) continue;
      for (Bytes& transient : (*transients)[stage]) transient += messages;
    }
    // A rank reduces the gradients of all its stages once the first of them has run its last
    // action.
    if (counted < Counted::kAll || layout().placement.local_stage(StageId(s)) > 0) continue;
    const Bytes reduced = gradients_in_flight(layout().placement.rank_of(StageId(s)));
    const auto last_of = [&](std::vector<std::vector<Bytes>>& transients) {
      const bool any = !transients.empty() && !transients[stage].empty();
      return any ? &transients[stage].back() : nullptr;
    };
    // Weight gradients that were put off come after their backward. The sums begin in the last
    // action, or after it if it sends: then what it computed with is free again.
    if (Bytes* last = last_of(bytes.weight_transient)) *last += reduced;
    if (Bytes* last = last_of(bytes.backward_transient))
      *last = s == 0 ? *last + reduced : std::max(*last, messages + reduced);
  }
}

}  // namespace slimpack
