#include "slimpack/planner/exchange_planning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/cost/abilities.h"
#include "slimpack/planner/replica_tasks.h"
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

}  // namespace slimpack
