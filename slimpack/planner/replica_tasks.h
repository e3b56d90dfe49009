// What every replica of a planned step costs.
#pragma once

#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// A replica's packs in ids of its own, which count from 0, so that nothing here grows with the
/// sequences of other replicas.
struct CostedReplica {
  PackPlan packs;
  TaskTimes times;
  TaskBytes bytes;

  [[nodiscard]] ReplicaPacks view() const { return {packs, times, bytes}; }
};

/// Cost: O(slices · stages) of the replica.
[[nodiscard]] CostedReplica costed_replica(const RatedPlan& step, const RecomputingCosts& cost,
                                           ReplicaId replica);

/// All of them, by replica, where layers compute again what the step says.
[[nodiscard]] std::vector<CostedReplica> costed_replicas(const RatedPlan& step, const Costs& cost);

/// The step with these costs of its replicas.
[[nodiscard]] SimulationResult simulate(const RatedPlan& step,
                                        const std::vector<CostedReplica>& replicas,
                                        const SimulationOptions& options = {});

/// By stage: the most that any of its ranks holds in any timing.
[[nodiscard]] std::vector<Bytes> stage_needs(const RatedPlan& step, const Costs& cost);
/// The same, with these costs of its replicas.
[[nodiscard]] std::vector<Bytes> stage_needs(const RatedPlan& step,
                                             const std::vector<CostedReplica>& replicas);

/// The most that any rank of the step holds in any timing.
[[nodiscard]] StageNeed step_need(const RatedPlan& step, const Costs& cost);

/// The most pinned host memory that any rank of the step needs for rows that are offloaded, in any
/// timing; 0 = none are.
[[nodiscard]] Bytes host_need(const RatedPlan& step, const Costs& cost);

}  // namespace slimpack
