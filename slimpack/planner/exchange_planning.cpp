#include "slimpack/planner/exchange_planning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/cost/exchange_costs.h"
#include "slimpack/schedule/context_exchanges.h"

namespace slimpack {
namespace {

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

void put_exchanges_in(RatedPlan& step, const Costs& cost) {
  if (!exchanges_attention(cost)) return;
  const RecomputingCosts recomputing = with_recompute(cost, step.plan.recompute);
  const StageLayout& layout = step.plan.layout;
  std::vector<std::vector<ContextExchange>> all = context_exchanges(step.plan, step.schedules);
  for (std::size_t r = 0; r < all.size(); ++r) {
    Replication replication{static_cast<std::int32_t>(all.size()), {}};
    if (!step.speed.empty()) replication.speed = step.speed[r];
    const PackPlan& packs = step.plan.replicas[r].packs;
    const TaskTimes without = task_times(recomputing, layout, packs, replication);
    ReplicaPacks with{packs, without, {}};  // without bytes: times alone decide
    add_exchanges(with, recomputing, layout, all[r], replication);
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

}  // namespace slimpack
