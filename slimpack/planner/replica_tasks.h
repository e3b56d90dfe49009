// The costs and the memory of every replica of a planned step.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// The step's stages, whose layers compute again what the step says.
[[nodiscard]] StageTable stage_table(const Costs& cost, const RatedPlan& step);

/// A replica's packs in sequence ids of its own, which count from 0, so that nothing here grows
/// with the sequences of other replicas. Cost: O(slices · stages) of the replica.
[[nodiscard]] ReplicaPacks costed_replica(const RatedPlan& step, const StageTable& table,
                                          ReplicaId replica, Counted counted = Counted::kAll);

/// A costed_replica without times and exchanges: enough for schedule_memory.
[[nodiscard]] ReplicaPacks replica_bytes(const RatedPlan& step, const StageTable& table,
                                         ReplicaId replica, Counted counted = Counted::kAll);

/// All replicas of the step, whose layers compute again what the step says.
[[nodiscard]] std::vector<ReplicaPacks> costed_replicas(const RatedPlan& step, const Costs& cost,
                                                        Counted counted = Counted::kAll);

/// The makespan that `predict` gives. Bytes are not needed, so it takes a part of the time.
/// REQUIRES: no rank runs a part of another's attention (Schedule::exchanges).
[[nodiscard]] Nanos predicted_makespan(const RatedPlan& step, const StageTable& table);

/// By rank of the pipeline: the most bytes that any replica's rank holds in any timing.
[[nodiscard]] std::vector<Bytes> rank_needs(const RatedPlan& step, const Costs& cost,
                                            Counted counted = Counted::kAll);
/// The rank_needs for costed_replicas of the step.
[[nodiscard]] std::vector<Bytes> rank_needs(const RatedPlan& step,
                                            std::span<const ReplicaPacks> replicas);

/// The most that any rank of the step holds in any timing.
[[nodiscard]] RankNeed step_need(const RatedPlan& step, const Costs& cost);

/// The most pinned host memory that any rank of the step needs for offloaded rows, in any timing;
/// 0 = no rows are offloaded.
[[nodiscard]] Bytes host_need(const RatedPlan& step, const Costs& cost);
/// The pinned host memory of one replica's packs in this order. `lengths`: by the packs' sequence
/// ids.
[[nodiscard]] Bytes host_need(const StageTable& table, const PackPlan& packs,
                              const SequenceLengths& lengths, const Schedule& order,
                              ReplicaId replica);

/// Whether a step whose ranks hold `need` at most keeps the cap, and its offloaded rows keep
/// cost.host.memory.
[[nodiscard]] bool fits(const RatedPlan& step, Bytes need, const std::optional<Bytes>& cap,
                        const Costs& cost);

}  // namespace slimpack
