#include "slimpack/planner/best_order.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/cost/abilities.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/schedule/ticks.h"

namespace slimpack {
namespace {

std::vector<Schedule> regular_orders(const StepPlan& plan) {
  std::vector<Schedule> orders;
  for (const ReplicaPlan& replica : plan.replicas)
    orders.push_back(sliced_one_f_one_b(replica.packs, plan.layout.ranks(), 2,
                                        plan.layout.placement.stages_per_rank()));
  return orders;
}

/// The split of the step's schedules, as list schedules have it.
std::int32_t split_of(const RatedPlan& step) {
  std::int32_t from = ListPolicy().split_from;
  for (const Schedule& schedule : step.schedules)
    if (const auto first = first_split(schedule)) from = std::min(from, first->value());
  return from;
}

/// List schedules of the same MicroPacks that have E, H and G from the start; none without a spread
/// vocabulary, with several stages a rank, or where they do not keep the cap.
std::optional<std::vector<Schedule>> jointly_listed(const RatedPlan& listed, const Costs& cost,
                                                    const std::optional<Bytes>& cap) {
  const StageLayout& layout = listed.plan.layout;
  if (!layout.spread_vocabulary || layout.placement.stages_per_rank() > 1) return std::nullopt;
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  std::vector<ReplicaPacks> replicas = costed_replicas(listed, cost);
  for (ReplicaPacks& replica : replicas) fold_vocabulary(replica.bytes, ranks);
  std::vector<Bytes> caps;
  if (cap) caps.assign(ranks, *cap);
  ListPolicy policy;
  policy.joint = true;
  policy.split_from = split_of(listed);
  policy.count_memory_below = Nanos(0);  // the step's need is counted afterwards
  std::vector<Schedule> orders;
  while (orders.size() < replicas.size()) {
    // The first of those that share MicroPacks has all that they share.
    const auto rest = std::span(replicas).subspan(orders.size());
    const auto group = rest.first(static_cast<std::size_t>(most_merged(rest.front().packs)));
    const auto result = ListScheduler(group).run(caps, policy);
    if (!result) return std::nullopt;
    for (const ReplicaPacks& replica : group)
      orders.push_back(own_order(result->schedule, replica.packs));
  }
  return orders;
}

/// Whether the orders are correct before E, H and G are put in.
bool runs(StepPlan& plan, std::span<const Schedule> orders) {
  const bool spread = std::exchange(plan.layout.spread_vocabulary, false);
  const bool correct = check_step(plan, orders).empty();
  plan.layout.spread_vocabulary = spread;
  return correct;
}

Nanos time_of(const TaskTimes& times, const Action& action) {
  const auto& of_pass = action.pass == Pass::kForward    ? times.forward
                        : action.pass == Pass::kBackward ? times.backward
                                                         : times.input_gradient;
  return of_pass[action.stage.index()][action.pack.index()];
}

Nanos longer(const TaskTimes& times, const ContextExchange& exchange) {
  return std::max(time_of(times, exchange.giver), time_of(times, exchange.taker));
}

}  // namespace

void put_vocabulary_in(RatedPlan& step) {
  if (!step.plan.layout.spread_vocabulary) return;
  step.schedules = with_vocabulary(step.plan, std::move(step.schedules));
  step.memory.clear();
}

void put_exchanges_in(RatedPlan& step, const Costs& cost) {
  if (!abilities(cost).exchanges_attention) return;
  const StageTable table = stage_table(cost, step);
  std::vector<std::vector<ContextExchange>> all = context_exchanges(step.plan, step.schedules);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const PackPlan& packs = step.plan.replicas[r].packs;
    const TaskTimes without = table.times(packs, ReplicaId(r));
    ReplicaPacks with{packs, without, {}};  // without bytes: times alone decide
    table.add_exchanges(with, all[r], ReplicaId(r));
    std::erase_if(all[r], [&](const ContextExchange& exchange) {
      return longer(with.times, exchange) >= longer(without, exchange);
    });
    step.schedules[r].exchanges = std::move(all[r]);
  }
  step.memory.clear();
}

bool has_exchanges(const RatedPlan& step) {
  return std::ranges::any_of(step.schedules,
                             [](const Schedule& schedule) { return !schedule.exchanges.empty(); });
}

OrderedStep best_ordered(RatedPlan listed, const Costs& cost, const std::optional<Bytes>& cap,
                         bool exchange_context) {
  std::vector<RatedPlan> steps{listed};
  const auto add = [&](std::vector<Schedule> orders) {
    steps.push_back(listed);
    steps.back().schedules = std::move(orders);
    steps.back().memory.clear();
  };
  put_vocabulary_in(steps.front());
  if (std::vector<Schedule> orders = regular_orders(listed.plan); runs(listed.plan, orders)) {
    add(std::move(orders));
    put_vocabulary_in(steps.back());
  }
  if (auto orders = jointly_listed(listed, cost, cap)) add(std::move(*orders));
  std::optional<OrderedStep> best;
  const auto rank = [&](const OrderedStep& ordered) {
    const bool above = !fits(ordered.step, ordered.need.bytes, cap, cost);
    return std::tuple(above, above ? ordered.need.bytes.count() : 0,
                      ordered.step.prediction.makespan);
  };
  const auto consider = [&](RatedPlan step) {
    step.prediction = predict(step, cost, {kChannelSlots, false});
    OrderedStep ordered{std::move(step), {}};
    ordered.need = step_need(ordered.step, cost);
    if (!best || rank(ordered) < rank(*best)) best = std::move(ordered);
  };
  for (RatedPlan& step : steps) {
    consider(step);
    if (!exchange_context) continue;
    put_exchanges_in(step, cost);
    if (has_exchanges(step)) consider(std::move(step));
  }
  return std::move(*best);
}

}  // namespace slimpack
