// Steps: run the orders as if each action took half a tick; collect what the ranks of a pipeline
// run at the same time; pair the most query-key pairs with the fewest.
#include "slimpack/schedule/ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace slimpack {
namespace {

/// How long an action keeps its rank: half a tick, and a whole one if the rank's next action is of
/// the same half.
void set_halves(std::span<StepNode> nodes) {
  const StepNode* next = nullptr;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    StepNode& node = nodes[i];
    if (node.action.pass == Pass::kWeightGradient) continue;
    const auto backward = [](const StepNode& of) { return goes_back(of.action.pass); };
    node.duration = next != nullptr && backward(*next) == backward(node) ? 2 : 1;
    if (node.leaves_rank) node.travel = 2 - node.duration;
    next = &node;
  }
}

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

StepGraph ticks(const StepPlan& plan, std::span<const Schedule> orders, int slots) {
  // An action starts with its output sure of a slot: nobody waits in a tick for what comes after.
  StepGraph graph(orders, static_cast<std::size_t>(slots), SlotRule::kStart);
  std::vector<const PackPlan*> packs;
  for (const ReplicaPlan& replica : plan.replicas) packs.push_back(&replica.packs);
  graph.join_merged(packs);
  for (std::size_t r = 0; r < graph.replicas(); ++r)
    for (std::size_t p = 0; p < graph.ranks(); ++p) set_halves(graph.rank(r, p));
  graph.run();
  return graph;
}

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
