#include "slimpack/planner/replica_tasks.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

PackPlan in_own_ids(const ReplicaPlan& replica) {
  const std::vector<SequenceId>& sequences = replica.sequences;
  PackPlan packs = replica.packs;
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass)
      for (Slice& slice : pack.slices)
        slice.sequence = SequenceId(static_cast<std::size_t>(
            std::lower_bound(sequences.begin(), sequences.end(), slice.sequence) -
            sequences.begin()));
  return packs;
}

SequenceLengths own_lengths(const StepPlan& plan, const ReplicaPlan& replica) {
  SequenceLengths lengths;
  for (const SequenceId q : replica.sequences) lengths.push_back(plan.lengths[q.index()]);
  return lengths;
}

}  // namespace

StageTable stage_table(const Costs& cost, const RatedPlan& step) {
  return stage_table(cost, step.plan.layout, step.plan.recompute,
                     {static_cast<std::int32_t>(step.plan.replicas.size()), step.speed});
}

ReplicaPacks replica_bytes(const RatedPlan& step, const StageTable& table, ReplicaId replica,
                           Counted counted) {
  const ReplicaPlan& plan = step.plan.replicas[replica.index()];
  ReplicaPacks packs{in_own_ids(plan), {}, {}};
  packs.bytes = table.bytes(packs.packs, own_lengths(step.plan, plan), counted, replica);
  table.add_in_flight(packs.bytes, counted);
  return packs;
}

ReplicaPacks costed_replica(const RatedPlan& step, const StageTable& table, ReplicaId replica,
                            Counted counted) {
  ReplicaPacks costed = replica_bytes(step, table, replica, counted);
  costed.times = table.times(costed.packs, replica);
  if (replica.index() < step.schedules.size())  // else it has no orders yet
    table.add_exchanges(costed, step.schedules[replica.index()].exchanges, replica);
  return costed;
}

std::vector<ReplicaPacks> costed_replicas(const RatedPlan& step, const Costs& cost,
                                          Counted counted) {
  const StageTable table = stage_table(cost, step);
  std::vector<ReplicaPacks> out;
  out.reserve(step.plan.replicas.size());
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    out.push_back(costed_replica(step, table, ReplicaId(r), counted));
  return out;
}

Nanos predicted_makespan(const RatedPlan& step, const StageTable& table) {
  std::vector<ReplicaPacks> replicas;
  replicas.reserve(step.plan.replicas.size());
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    SLIMPACK_CHECK(step.schedules[r].exchanges.empty());
    const PackPlan& packs = step.plan.replicas[r].packs;
    replicas.push_back({packs, table.times(packs, ReplicaId(r)), {}});
  }
  return simulated_makespan(replicas, step.schedules);
}

std::vector<Bytes> rank_needs(const RatedPlan& step, const Costs& cost, Counted counted) {
  return rank_needs(step, costed_replicas(step, cost, counted));
}

std::vector<Bytes> rank_needs(const RatedPlan& step, std::span<const ReplicaPacks> replicas) {
  std::vector<Bytes> needs(static_cast<std::size_t>(step.plan.layout.ranks()));
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

RankNeed step_need(const RatedPlan& step, const Costs& cost) {
  return largest_need(rank_needs(step, cost));
}

Bytes host_need(const StageTable& table, const PackPlan& packs, const SequenceLengths& lengths,
                const Schedule& order, ReplicaId replica) {
  return largest_need(schedule_memory(packs, order, table.host_bytes(packs, lengths, replica)))
      .bytes;
}

Bytes host_need(const RatedPlan& step, const Costs& cost) {
  Bytes most;
  if (!first_offloading(step.plan.recompute)) return most;
  const StageTable table = stage_table(cost, step);
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r) {
    const ReplicaPlan& plan = step.plan.replicas[r];
    most = std::max(most, host_need(table, in_own_ids(plan), own_lengths(step.plan, plan),
                                    step.schedules[r], ReplicaId(r)));
  }
  return most;
}

bool fits(const RatedPlan& step, Bytes need, const std::optional<Bytes>& cap, const Costs& cost) {
  if (cap && need > *cap) return false;
  const Bytes host = stage_table(cost, step).host_memory();
  return host == Bytes(0) || host_need(step, cost) <= host;
}

double RatedPlan::gap() const {
  return lower_bound > Nanos(0) ? static_cast<double>(prediction.makespan.count()) /
                                          static_cast<double>(lower_bound.count()) -
                                      1
                                : 0;
}

RunnablePlan runnable(RatedPlan step, const Costs& cost) {
  std::vector<LoweredSchedule> lowered = lower(costed_replicas(step, cost), step.schedules);
  return {std::move(step), std::move(lowered)};
}

SimulationResult predict(const RatedPlan& step, const Costs& cost,
                         const SimulationOptions& options) {
  return simulate(costed_replicas(step, cost), step.schedules, options);
}

}  // namespace slimpack
