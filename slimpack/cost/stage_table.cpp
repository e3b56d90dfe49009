#include "slimpack/cost/stage_table.h"

#include <cstddef>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/reduction.h"

namespace slimpack {
namespace {

/// The costs with layers that `change` has changed, of every kind.
template <class Change>
Costs with_layers(Costs cost, const Change& change) {
  for (LayerCosts& kind : cost.kinds) change(kind);
  return cost;
}

}  // namespace

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

Bytes StageTable::host_memory() const {
  return bound_->cost.host.memory;
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

}  // namespace slimpack
