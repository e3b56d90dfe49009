// Steps: collect what the ranks of a pipeline run at the same time; pair the most with the least.
#include "slimpack/schedule/context_exchanges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "slimpack/schedule/ticks.h"

namespace slimpack {
namespace {

/// The exchange between two actions, a giver with more pairs and a taker with fewer; none if they
/// are even to one key.
std::optional<ContextExchange> exchange_between(const PackPlan& packs, const Action& giver,
                                                const Action& taker) {
  const MicroPack& pack = packs.of(giver.pass)[giver.pack.index()];
  const Slice& slice = pack.slices[exchanged_slice(pack)];
  const double more = causal_pairs(pack) - causal_pairs(packs.of(taker.pass)[taker.pack.index()]);
  const double keys = std::floor(more / 2 / static_cast<double>(slice.length().count()));
  const Tokens given = std::min(slice.prefix(), Tokens(static_cast<std::int64_t>(keys)));
  if (given < Tokens(1)) return std::nullopt;
  return ContextExchange{giver, taker, given};
}

/// Adds those between actions that run at the same time.
void add_exchanges(const PackPlan& packs, std::vector<Action> together,
                   std::vector<ContextExchange>& out) {
  std::ranges::stable_sort(together, {}, [&](const Action& action) {
    return causal_pairs(packs.of(action.pass)[action.pack.index()]);
  });
  for (std::size_t i = 0; i + i + 1 < together.size(); ++i)
    if (const auto exchange =
            exchange_between(packs, together[together.size() - 1 - i], together[i]))
      out.push_back(*exchange);
}

}  // namespace

std::vector<std::vector<ContextExchange>> context_exchanges(const StepPlan& plan,
                                                            const std::vector<Schedule>& schedules,
                                                            int slots) {
  const StepGraph graph = ticks(plan, schedules, slots);
  std::vector<std::vector<ContextExchange>> out;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const PackPlan& packs = plan.replicas[r].packs;
    // Actions are paired within a half of a tick and a pass: whole backwards exchange with whole
    // ones.
    std::map<std::pair<std::int64_t, Pass>, std::vector<Action>> together;
    for (std::size_t p = 0; p < graph.ranks(); ++p)
      for (const StepNode& node : graph.rank(r, p)) {
        const Action& action = node.action;
        if (passes_rows(action.pass) && packs.of(action.pass)[action.pack.index()].replicas == 1)
          together[{node.start, action.pass}].push_back(action);
      }
    std::vector<ContextExchange>& own = out.emplace_back();
    for (auto& [when, actions] : together) add_exchanges(packs, std::move(actions), own);
    std::ranges::sort(own);
  }
  return out;
}

}  // namespace slimpack
