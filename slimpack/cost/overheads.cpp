// Overheads: what MicroPacks and slices cost by themselves, apart from the tokens in them.
#include <vector>

#include "slimpack/cost/bound_stages.h"

namespace slimpack {
namespace {

void drop(EdgeTime& time) {
  time.per_pack = 0;
}

void drop(SliceTime& time) {
  time.per_slice = 0;
}

void drop(PackCost& cost) {
  cost.per_pack = cost.per_slice = cost.per_missing_row = 0;
}

void drop(LayerCosts& layer) {
  drop(layer.forward);
  drop(layer.backward);
  layer.weight_reading = 0;  // is part of forward.per_pack
  drop(layer.elementwise);
  drop(layer.weight_gradient);
  for (MergeTime& merge : layer.merge) {
    drop(merge.forward);
    drop(merge.backward);
    drop(merge.forward_slice);
    drop(merge.backward_slice);
  }
}

void drop(AutogradCosts& autograd) {
  for (AutogradLayer& layer : autograd.layers)
    for (KeptGraph* graph : {&layer.whole, &layer.elementwise}) {
      drop(graph->forward);
      drop(graph->backward);
    }
  drop(autograd.stage);
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

Costs without_overheads(const Costs& cost) {
  Costs rest = cost;
  for (LayerCosts& kind : rest.kinds) drop(kind);
  for (EdgeTime* edge :
       {&rest.ends.embedding_forward, &rest.ends.embedding_backward, &rest.ends.head_backward})
    drop(*edge);
  rest.transfer.latency = 0;  // ranks that share the vocabulary wait for it in every MicroPack
  if (rest.autograd) drop(*rest.autograd);
  return rest;
}

Nanos StageTable::overhead_time(const PackPlan& packs, ReplicaId replica) const {
  const StageTable rest =
      stage_table(without_overheads(bound_->cost), layout(), recompute(), replication());
  return computed(*this, packs, replica) - computed(rest, packs, replica);
}

}  // namespace slimpack
