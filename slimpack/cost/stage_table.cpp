#include "slimpack/cost/stage_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/recomputed_cost.h"
#include "slimpack/cost/reduction.h"

namespace slimpack {

namespace {

void add(EdgeTime& sum, const EdgeTime& more, double times) {
  sum.per_pack += times * more.per_pack;
  sum.per_token += times * more.per_token;
}

/// The part of a MicroPack's time on a stage that is not a layer's: embedding, head, and what the
/// runtime takes beside its layers.
EdgeTime edge_time(const BoundStages& bound, StageId s, Pass pass) {
  const Costs& cost = bound.cost;
  const StageLayout& layout = bound.layout;
  const bool backward = pass == Pass::kBackward;
  const bool whole = !layout.spread_vocabulary;
  EdgeTime edge;
  if (s.value() == 0 && whole)
    edge = backward ? cost.ends.embedding_backward : cost.ends.embedding_forward;
  add(edge, bound.beside_layers(s, pass), 1);
  const bool last = s.value() == layout.stages() - 1;
  if (last && backward && whole) add(edge, cost.ends.head(), 1);
  return edge;
}

PackCost merge_time(const MergeTime& merge, Pass pass) {
  const EdgeTime& exchange = pass == Pass::kForward ? merge.forward : merge.backward;
  const SliceTime& slice = pass == Pass::kForward ? merge.forward_slice : merge.backward_slice;
  return {.per_pack = exchange.per_pack,
          .per_slice = slice.per_slice,
          .per_token = exchange.per_token,
          .per_prefix_token = slice.per_prefix_token,
          .per_window_prefix = slice.per_window_prefix,
          .travel = pass == Pass::kForward ? merge.forward_travel : merge.backward_travel};
}

/// Between the times of two groups, or beyond them: messages and kernel calls grow with the number
/// of replicas, and what each of them does of all rows grows as 1 − 1/replicas does.
PackCost between(const PackCost& fewer, const PackCost& more, double few, double many,
                 double replicas) {
  const double calls = (replicas - few) / (many - few);
  const double rows = (1 / few - 1 / replicas) / (1 / few - 1 / many);
  const auto at = [](double a, double b, double share) {
    return std::max(0.0, a + share * (b - a));
  };
  return {.per_pack = at(fewer.per_pack, more.per_pack, calls),
          .per_slice = at(fewer.per_slice, more.per_slice, calls),
          .per_token = at(fewer.per_token, more.per_token, rows),
          .per_prefix_token = at(fewer.per_prefix_token, more.per_prefix_token, rows),
          .per_window_prefix = at(fewer.per_window_prefix, more.per_window_prefix, rows),
          .travel = {at(fewer.travel.per_query, more.travel.per_query, rows),
                     at(fewer.travel.per_key, more.travel.per_key, rows),
                     at(fewer.travel.hidden_per_pair, more.travel.hidden_per_pair, calls)}};
}

/// Adds the stage's layers of one kind.
void add_layers(StageLayers& sum, const PackFlowStages& bound, StageId stage, Pass pass,
                std::int32_t replicas, std::size_t kind) {
  const Costs& cost = bound.cost;
  const auto counts = bound.layers_by_recompute(stage, kind);
  const std::int32_t all = std::accumulate(counts.begin(), counts.end(), 0);
  const LayerCosts& layer = cost.kinds[kind];
  sum.exchange = sum.exchange + all * merge_time(layer, pass, replicas);
  if (pass == Pass::kForward) {
    sum.time = sum.time + all * layer.forward;
    const std::int32_t offloaded = counts[static_cast<std::size_t>(Recompute::kOffload)];
    sum.time.per_token += offloaded * exposed_transfer(cost, Pass::kForward, kind);
    return;
  }
  for (const Recompute recompute : all_recomputations()) {
    const std::int32_t layers = counts[static_cast<std::size_t>(recompute)];
    if (layers == 0) continue;
    sum.time = sum.time + layers * backward_time(cost, recompute, kind);
    if (attends_again(recompute))
      sum.exchange = sum.exchange + layers * merge_time(layer, Pass::kForward, replicas);
  }
}

/// The costs with layers that `change` has changed, of every kind.
template <class Change>
Costs with_layers(Costs cost, const Change& change) {
  for (LayerCosts& kind : cost.kinds) change(kind);
  return cost;
}

/// The time that the ranks of a replica compute, added up, without what follows the last MicroPack.
/// A split backward takes as long as a whole one.
Nanos computed(const StageTable& table, const PackPlan& packs, ReplicaId replica) {
  const TaskTimes times = table.times(packs, replica);
  Nanos sum;
  for (const auto* pass : {&times.forward, &times.backward})
    for (const std::vector<Nanos>& stage : *pass)
      for (const Nanos time : stage) sum += time;
  for (const std::vector<Nanos>& joint : times.joint)
    for (const Nanos time : joint) sum += time * table.layout().ranks();
  return sum;
}

}  // namespace

PackCost merge_time(const LayerCosts& cost, Pass pass, std::int32_t replicas) {
  if (replicas == 1) return {};
  const auto known = [&](std::size_t power) {
    return power == 0 ? PackCost() : merge_time(cost.merge[power - 1], pass);
  };
  const auto below = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(replicas))) - 1;
  if (below > cost.merge.size())
    invalid_input("the cost model knows merging of up to {} replicas, the plan merges {}; {}",
                  cost.merge.empty() ? 1 : 1 << cost.merge.size(), replicas,
                  "plan again with this cost model");
  if (std::has_single_bit(static_cast<unsigned>(replicas))) return known(below);
  const std::size_t few = below < cost.merge.size() ? below : below - 1;
  return between(known(few), known(few + 1), std::ldexp(1.0, static_cast<int>(few)),
                 std::ldexp(1.0, static_cast<int>(few) + 1), replicas);
}

EdgeTime PackFlowStages::beside_layers(StageId stage, Pass pass) const {
  const std::int32_t last_layer = end_layer(stage) - 1;
  if (recompute_of(last_layer) != Recompute::kOffload) return {};
  const bool head = stage.value() == layout.stages() - 1 && !layout.spread_vocabulary;
  return {0, uncovered_transfer(cost, pass, head,
                                cost.shape.kind_of(static_cast<std::size_t>(last_layer)))};
}

StageLayers PackFlowStages::layers(StageId stage, Pass pass, std::int32_t replicas) const {
  StageLayers sum;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind)
    add_layers(sum, *this, stage, pass, replicas, kind);
  return sum;
}

PackCost stage_cost(const BoundStages& bound, StageId stage, Pass pass, std::int32_t replicas) {
  const auto [time, exchange] = bound.layers(stage, pass, replicas);
  const EdgeTime edge = edge_time(bound, stage, pass);
  return {.per_pack = time.per_pack + exchange.per_pack + edge.per_pack,
          .per_slice = time.per_slice + exchange.per_slice,
          .per_token = (time.per_token + edge.per_token) / replicas + exchange.per_token,
          .per_pair = time.per_pair / replicas,
          .per_prefix_token = time.per_prefix_token / replicas + exchange.per_prefix_token,
          .per_window_pair = time.per_window_pair / replicas,
          .per_window_prefix = time.per_window_prefix / replicas + exchange.per_window_prefix,
          .window = time.window,
          .per_missing_row = time.per_missing_row,
          .travel = exchange.travel};
}

EdgeTime vocabulary_time(const BoundStages& bound, Pass pass) {
  const Costs& cost = bound.cost;
  const double ranks = bound.layout.ranks();
  const double row = static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype)) *
                     cost.transfer.per_byte;
  // To all other ranks or from them: of H both. One rank has the rows. Up to two others get them
  // from it; of more each first gets an even share, which it then passes to all.
  const double ways = pass == Pass::kHead ? 2 : 1;
  const double rounds = ranks > 3 ? 2 : 1;
  const double rows = ranks > 3 ? 2 * (ranks - 1) / ranks : ranks - 1;
  EdgeTime time{ways * rounds * cost.transfer.latency, ways * rows * row};
  // Every rank writes a row for each token, of other ranks' tokens zeros.
  if (pass == Pass::kEmbedding) add(time, cost.ends.embedding_forward, 1);
  if (pass == Pass::kEmbeddingGradient) add(time, cost.ends.embedding_backward, 1);
  if (pass == Pass::kHead) add(time, cost.ends.head(), 1 / ranks);
  return time;
}

PackCost StageTable::stage(StageId stage, Pass pass, std::int32_t replicas) const {
  return stage_cost(*bound_, stage, pass, replicas);
}

EdgeTime StageTable::vocabulary(Pass pass) const {
  return vocabulary_time(*bound_, pass);
}

PackCost StageTable::rank(std::int32_t rank, Pass pass, std::int32_t replicas) const {
  PackCost sum;
  for (const StageId stage : layout().placement.stages_of(rank))
    sum = sum + stage_cost(*bound_, stage, pass, replicas);
  if (!layout().spread_vocabulary) return sum;
  for (const Pass joint : kJointPasses) {
    if (runs_forward_packs(joint) != runs_forward_packs(pass)) continue;
    const EdgeTime time = vocabulary_time(*bound_, joint);
    sum.per_pack += time.per_pack;
    sum.per_token += time.per_token / replicas;
  }
  return sum;
}

BoundStages::BoundStages(const Costs& costs, const StageLayout& stages, RecomputeByLayer by_layer,
                         Replication replicas)
    : cost(costs),
      layout(stages),
      recompute(std::move(by_layer)),
      replication(std::move(replicas)) {}

std::array<std::int32_t, kRecomputations> BoundStages::layers_by_recompute(StageId stage,
                                                                           std::size_t kind) const {
  std::array<std::int32_t, kRecomputations> counts{};
  for (std::int32_t layer = first_layer(stage); layer < end_layer(stage); ++layer)
    if (cost.shape.kind_of(static_cast<std::size_t>(layer)) == kind)
      ++counts[static_cast<std::size_t>(recompute_of(layer))];
  return counts;
}

StageTable::StageTable(std::shared_ptr<const BoundStages> bound) : bound_(std::move(bound)) {}

const StageLayout& StageTable::layout() const {
  return bound_->layout;
}

const RecomputeByLayer& StageTable::recompute() const {
  return bound_->recompute;
}

const Replication& StageTable::replication() const {
  return bound_->replication;
}

bool StageTable::splits_backward() const {
  return bound_->splits_backward();
}

double StageTable::transfer(double tokens) const {
  const Costs& cost = bound_->cost;
  const auto row = static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype));
  return cost.transfer.latency + cost.transfer.per_byte * row * tokens;
}

Abilities StageTable::abilities() const {
  return slimpack::abilities(bound_->cost);
}

NodePlacement StageTable::placement() const {
  return {bound_->cost.host.ranks_per_node, bound_->cost.tp, layout().ranks(),
          replication().replicas};
}

bool StageTable::may_skip_forward(StageId stage) const {
  return bound_->may_skip_forward(stage);
}

bool StageTable::keeps_graphs() const {
  for (std::int32_t s = 0; s < layout().stages(); ++s)
    if (bound_->keeps_graphs(StageId(s))) return true;
  return false;
}

double StageTable::least_reduction(double longest_last_action) const {
  return bound_->least_reduction(longest_last_action);
}

double StageTable::shared_state_traffic(StageId stage, Pass pass) const {
  return slimpack::shared_state_traffic(bound_->cost, layout(), stage, replication().replicas,
                                        pass);
}

StageTable StageTable::at_speed_1() const {
  return stage_table(bound_->cost, layout(), recompute(), {replication().replicas, {}});
}

StageTable StageTable::recomputing(Recompute everywhere) const {
  const auto layers = static_cast<std::size_t>(bound_->cost.shape.num_layers());
  return stage_table(bound_->cost, layout(), RecomputeByLayer(layers, everywhere), replication());
}

StageTable StageTable::with_free_sharing() const {
  const auto free = [](LayerCosts& layer) { layer.merge.assign(layer.merge.size(), {}); };
  return stage_table(with_layers(bound_->cost, free), layout(), recompute(), replication());
}

StageTable StageTable::with_attention(double share) const {
  const auto scale = [&](LayerCosts& layer) {
    layer.forward.per_pair *= share;
    layer.backward.per_pair *= share;
  };
  return stage_table(with_layers(bound_->cost, scale), layout(), recompute(), replication());
}

bool StageTable::operator==(const StageTable& other) const {
  return bound_->cost == other.bound_->cost && layout() == other.layout() &&
         recompute() == other.recompute() && replication() == other.replication();
}

StageTable stage_table(const Costs& cost, const StageLayout& layout, RecomputeByLayer recompute,
                       Replication replication) {
  SLIMPACK_CHECK(recompute.empty() || std::ssize(recompute) == cost.shape.num_layers(),
                 "policies of {} layers, the model has {}", recompute.size(),
                 cost.shape.num_layers());
  for (const std::vector<double>& speed : replication.speed)
    SLIMPACK_CHECK(std::ssize(speed) == layout.ranks());
  if (cost.autograd)
    return StageTable(std::make_shared<const AutogradStages>(cost, layout, std::move(recompute),
                                                             std::move(replication)));
  return StageTable(std::make_shared<const PackFlowStages>(cost, layout, std::move(recompute),
                                                           std::move(replication)));
}

Nanos StageTable::overhead_time(const PackPlan& packs, ReplicaId replica) const {
  const StageTable rest =
      stage_table(without_overheads(bound_->cost), layout(), recompute(), replication());
  return computed(*this, packs, replica) - computed(rest, packs, replica);
}

}  // namespace slimpack
