#include "slimpack/planner/baseline_orders.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "slimpack/baselines/makers.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Forward and backward of each pack over all stages. REQUIRES: both passes have the same packs.
std::vector<std::int64_t> pack_costs(const TaskTimes& times) {
  std::vector<std::int64_t> costs(times.forward.front().size(), 0);
  for (const auto* pass : {&times.forward, &times.backward})
    for (const auto& stage : *pass)
      for (std::size_t p = 0; p < costs.size(); ++p) costs[p] += stage[p].count();
  return costs;
}

PackPlan reordered(const PackPlan& packs, const std::vector<std::size_t>& order) {
  PackPlan out;
  for (const std::size_t p : order) out.forward.push_back(packs.forward[p]);
  out.backward = out.forward;
  return out;
}

/// Tokens that a stage may hold, from no limit down to a pack at a time, each four fifths of the
/// one before.
std::vector<std::int64_t> limits_of(const std::vector<std::int64_t>& tokens, std::int32_t stages) {
  std::vector<std::int64_t> limits{kNoLimit};
  const std::size_t in_flight = 2 * static_cast<std::size_t>(stages) - 1;
  std::int64_t held = 0, most = 0, heaviest = 0;
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    held += tokens[p] - (p < in_flight ? 0 : tokens[p - in_flight]);
    most = std::max(most, held);
    heaviest = std::max(heaviest, tokens[p]);
  }
  for (std::int64_t limit = most * 4 / 5; limit > heaviest; limit = limit * 4 / 5)
    limits.push_back(limit);
  if (most > heaviest) limits.push_back(heaviest);
  limits.push_back(0);
  return limits;
}

std::vector<PackPlan> tried_orders(const PackPlan& packs, const TaskTimes& times) {
  std::vector<PackPlan> orders;
  for (const auto& order : pack_orders(pack_costs(times)))
    orders.push_back(reordered(packs, order));
  return orders;
}

/// DynaPipe's choice: of all orders the one whose schedule is the shortest. Puts the packs into it.
class CyclicOrder {
 public:
  CyclicOrder(const StageTable& table, const std::optional<Bytes>& cap, bool every_limit)
      : table_(table), cap_(cap), every_limit_(every_limit) {}

  Schedule choose(RatedPlan& step, ReplicaId replica) {
    PackPlan& packs = step.plan.replicas[replica.index()].packs;
    const TaskTimes times = costed_replica(step, table_, replica).times;
    for (const PackPlan& order : tried_orders(packs, times)) {
      packs = order;
      rate(costed_replica(step, table_, replica), order);
    }
    packs = std::move(best_packs_);
    return std::move(best_);
  }

 private:
  void rate(const ReplicaPacks& replica, const PackPlan& order) {
    std::vector<std::int64_t> tokens;
    for (const MicroPack& pack : order.forward) tokens.push_back(pack.tokens().count());
    const std::int32_t stages = replica.times.stages();
    for (const std::int64_t limit : limits_of(tokens, stages)) {
      Schedule schedule = wait_free_cyclic(tokens, stages, limit);
      const Bytes memory =
          largest_need(schedule_memory(replica.packs, schedule, replica.bytes)).bytes;
      consider(replica, order, std::move(schedule), memory);
      if (!above(memory) && !every_limit_) break;
      if (limit == kNoLimit) rate_list_schedules(replica, order);
    }
  }

  /// Rates list schedules, which the baseline's system lacks, where memory is short or every limit
  /// is tried. A smaller cap gives the shorter list schedule at times.
  void rate_list_schedules(const ReplicaPacks& replica, const PackPlan& order) {
    const ListScheduler scheduler(std::span(&replica, 1));
    const std::vector<Bytes>& least = scheduler.least_memory();
    const Bytes lowest = largest_need(least).bytes;
    std::vector<Bytes> caps;
    if (!every_limit_)
      for (const Bytes stage : least) caps.push_back(std::max(stage, *cap_));
    for (bool more = true; more;) {
      std::optional<ListScheduler::Result> result = scheduler.run(caps);
      const Bytes memory = largest_need(result->memory).bytes;
      consider(replica, order, std::move(result->schedule), memory);
      // Down to its own memory a smaller cap gives the same schedule.
      const Bytes next = above(memory) ? *cap_ : memory - Bytes(1);
      more = every_limit_ && next >= lowest;
      caps.assign(least.size(), next);
    }
  }

  [[nodiscard]] bool above(Bytes memory) const { return cap_ && memory > *cap_; }

  void consider(const ReplicaPacks& replica, const PackPlan& order, Schedule schedule,
                Bytes memory) {
    const Bytes over = above(memory) ? memory - *cap_ : Bytes(0);
    const Nanos makespan =
        simulate(std::span(&replica, 1), std::span(&schedule, 1), {kChannelSlots, false}).makespan;
    if (best_makespan_ && std::tuple(over, makespan) >= std::tuple(best_above_, *best_makespan_))
      return;
    best_ = std::move(schedule);
    best_packs_ = order;
    best_above_ = over;
    best_makespan_ = makespan;
  }

  const StageTable& table_;
  const std::optional<Bytes>& cap_;
  bool every_limit_;
  Schedule best_;
  PackPlan best_packs_;
  Bytes best_above_;
  std::optional<Nanos> best_makespan_;
};

/// The microbatches of the 1F1B whose columns the plan names.
std::int32_t column_count(const BaselinePlan& made) {
  std::int32_t count = 0;
  for (const auto& columns : made.columns)
    if (!columns.empty()) count = std::max(count, columns.back() + 1);
  return count;
}

}  // namespace

Schedule fixed_order(const BaselinePlan& made, std::size_t replica) {
  const PackPlan& packs = made.plan.replicas[replica].packs;
  const StageLayout& layout = made.plan.layout;
  if (layout.placement.turns_back()) return zero_bubble_v(packs, layout.ranks(), made.split);
  const std::int32_t stages_per_rank = layout.placement.stages_per_rank();
  if (!made.columns.empty())
    return columned_one_f_one_b(made.columns[replica], column_count(made), layout.ranks(),
                                stages_per_rank);
  // Where all ranks run E, H and G together, systems run a forward and a backward in each tick.
  const bool two_ahead = stages_per_rank > 1 || layout.spread_vocabulary;
  Schedule order;
  if (two_ahead || made.discipline == Discipline::kSlicedOneFOneB)
    order = sliced_one_f_one_b(packs, layout.ranks(), two_ahead ? 2 : made.ahead_per_stage,
                               stages_per_rank);
  else
    order = one_f_one_b(packs, layout.ranks());
  return made.split && !two_ahead ? split_backwards(order) : order;
}

RatedPlan unordered_step(const BaselinePlan& made, const StageTable& table) {
  RatedPlan step;
  step.plan = made.plan;
  step.speed = table.replication().speed;
  step.plan.recompute = table.recompute();
  return step;
}

void order_next(RatedPlan& step, const BaselinePlan& made, const std::optional<Bytes>& memory_cap,
                const StageTable& table, std::size_t few_packs) {
  const std::size_t r = step.schedules.size();
  if (made.discipline == Discipline::kCyclic) {
    const bool every_limit = table.replication().replicas == 1 &&
                             step.plan.replicas[r].packs.forward.size() <= few_packs;
    step.schedules.push_back(
        CyclicOrder(table, memory_cap, every_limit).choose(step, ReplicaId(r)));
  } else {
    step.schedules.push_back(fixed_order(made, r));
  }
}

RatedPlan ordered_step(const BaselinePlan& made, const std::optional<Bytes>& memory_cap,
                       const StageTable& table, std::size_t few_packs) {
  RatedPlan step = unordered_step(made, table);
  while (step.schedules.size() < step.plan.replicas.size())
    order_next(step, made, memory_cap, table, few_packs);
  put_vocabulary_in(step);
  return step;
}

}  // namespace slimpack
