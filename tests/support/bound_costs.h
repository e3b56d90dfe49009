// Bound costs: what stage tables say of costs, for tests that look at one term of one layout.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/stage_table.h"

namespace slimpack {

/// Costs with a recomputation by layer of the model; empty = kElementwise for all.
struct RecomputingCosts : Costs {
  RecomputeByLayer recompute;

  RecomputingCosts(Costs cost = {}, RecomputeByLayer by_layer = {})  // NOLINT: costs are such
      : Costs(std::move(cost)), recompute(std::move(by_layer)) {}
};

inline RecomputingCosts with_recompute(const Costs& cost, RecomputeByLayer recompute) {
  return {cost, std::move(recompute)};
}
inline RecomputingCosts with_recompute(const Costs& cost, Recompute everywhere) {
  return {cost, RecomputeByLayer(static_cast<std::size_t>(cost.shape.num_layers()), everywhere)};
}

/// A replica of a job: how many the job has, and the speeds of this one's ranks.
struct OneReplica {
  std::int32_t replicas = 1;
  std::vector<double> speed = {};
};

inline StageTable table_of(const RecomputingCosts& cost, const StageLayout& layout,
                           const OneReplica& replica = {}) {
  Replication replication{replica.replicas, {}};
  if (!replica.speed.empty()) replication.speed = {replica.speed};
  return stage_table(cost, layout, cost.recompute, std::move(replication));
}

inline PackCost stage_cost(const RecomputingCosts& cost, const StageLayout& layout, StageId stage,
                           Pass pass, std::int32_t replicas = 1) {
  return table_of(cost, layout).stage(stage, pass, replicas);
}

inline TaskTimes task_times(const RecomputingCosts& cost, const StageLayout& layout,
                            const PackPlan& packs, const OneReplica& replica = {}) {
  return table_of(cost, layout, replica).times(packs);
}

inline TaskBytes task_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                            const PackPlan& packs, const SequenceLengths& lengths,
                            Counted counted = Counted::kAll, ReplicaId replica = ReplicaId(0)) {
  return table_of(cost, layout).bytes(packs, lengths, counted, replica);
}

inline Bytes sequence_bytes(const RecomputingCosts& cost, const StageLayout& layout,
                            std::int32_t rank, Tokens tokens) {
  return table_of(cost, layout).sequence_bytes(rank, tokens);
}

inline ModelState model_state(const Costs& cost, const StageLayout& layout, std::int32_t rank,
                              std::int32_t replicas) {
  return table_of(cost, layout, {replicas, {}}).state(rank);
}

inline Bytes model_state_bytes(const Costs& cost, const StageLayout& layout, std::int32_t rank,
                               std::int32_t replicas) {
  return model_state(cost, layout, rank, replicas).total();
}

}  // namespace slimpack
