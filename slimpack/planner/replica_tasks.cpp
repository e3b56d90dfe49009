#include "slimpack/planner/replica_tasks.h"

#include <algorithm>
#include <utility>

#include "slimpack/cost/memory_model.h"

namespace slimpack {
namespace {

PackPlan in_own_ids(PackPlan packs, const std::vector<SequenceId>& sequences) {
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass)
      for (Slice& slice : pack.slices)
        slice.sequence = SequenceId(static_cast<std::size_t>(
            std::lower_bound(sequences.begin(), sequences.end(), slice.sequence) -
            sequences.begin()));
  return packs;
}

/// A replica's packs, and the lengths of their sequences, in its own ids.
struct OwnPacks {
  PackPlan packs;
  SequenceLengths lengths;
};

OwnPacks own_packs(const RatedPlan& step, ReplicaId replica) {
  const ReplicaPlan& plan = step.plan.replicas[replica.index()];
  OwnPacks own{in_own_ids(plan.packs, plan.sequences), {}};
  for (const SequenceId q : plan.sequences) own.lengths.push_back(step.plan.lengths[q.index()]);
  return own;
}

}  // namespace

CostedReplica costed_replica(const RatedPlan& step, const RecomputingCosts& cost,
                             ReplicaId replica) {
  Replication replication{static_cast<std::int32_t>(step.plan.replicas.size()), {}};
  if (!step.speed.empty()) replication.speed = step.speed[replica.index()];
  auto [packs, lengths] = own_packs(step, replica);
  CostedReplica costed;
  costed.packs = std::move(packs);
  costed.times = task_times(cost, step.plan.layout, costed.packs, replication);
  costed.bytes = task_bytes(cost, step.plan.layout, costed.packs, lengths);
  return costed;
}

std::vector<CostedReplica> costed_replicas(const RatedPlan& step, const Costs& cost) {
  const RecomputingCosts recomputing = with_recompute(cost, step.plan.recompute);
  std::vector<CostedReplica> out;
  out.reserve(step.plan.replicas.size());
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    out.push_back(costed_replica(step, recomputing, ReplicaId(r)));
  return out;
}

SimulationResult simulate(const RatedPlan& step, const std::vector<CostedReplica>& replicas,
                          const SimulationOptions& options) {
  std::vector<ReplicaPacks> views;
  for (const CostedReplica& replica : replicas) views.push_back(replica.view());
  return simulate(views, step.schedules, options);
}

std::vector<Bytes> stage_needs(const RatedPlan& step, const Costs& cost) {
  return stage_needs(step, costed_replicas(step, cost));
}

std::vector<Bytes> stage_needs(const RatedPlan& step, const std::vector<CostedReplica>& replicas) {
  std::vector<Bytes> needs(static_cast<std::size_t>(step.plan.layout.stages()));
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const std::vector<Bytes> memory =
        schedule_memory(replicas[r].packs, step.schedules[r], replicas[r].bytes);
    for (std::size_t s = 0; s < needs.size(); ++s) needs[s] = std::max(needs[s], memory[s]);
  }
  // One replica by itself may seem to hold more than the others of its group ever let it.
  for (std::size_t s = 0; s < step.memory.size(); ++s)
    needs[s] = std::min(needs[s], step.memory[s]);
  return needs;
}

StageNeed step_need(const RatedPlan& step, const Costs& cost) {
  return largest_need(stage_needs(step, cost));
}

Bytes host_need(const RatedPlan& step, const Costs& cost) {
  Bytes most;
  if (!first_offloading(step.plan.recompute)) return most;
  const RecomputingCosts recomputing = with_recompute(cost, step.plan.recompute);
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    const OwnPacks own = own_packs(step, ReplicaId(r));
    const TaskBytes bytes = host_bytes(recomputing, step.plan.layout, own.packs, own.lengths);
    for (const Bytes stage : schedule_memory(own.packs, step.schedules[r], bytes))
      most = std::max(most, stage);
  }
  return most;
}

double RatedPlan::gap() const {
  return lower_bound > Nanos(0) ? static_cast<double>(prediction.makespan.count()) /
                                          static_cast<double>(lower_bound.count()) -
                                      1
                                : 0;
}

SimulationResult predict(const RatedPlan& step, const Costs& cost,
                         const SimulationOptions& options) {
  return simulate(step, costed_replicas(step, cost), options);
}

}  // namespace slimpack
