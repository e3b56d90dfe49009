#include "slimpack/cost/abilities.h"

#include <algorithm>

namespace slimpack {
namespace {

bool windowed(const Costs& cost) {
  return std::ranges::any_of(cost.kinds,
                             [](const LayerCosts& kind) { return kind.forward.windowed(); });
}

}  // namespace

bool Abilities::knows(Recompute recompute) const {
  return std::ranges::find(recomputations, recompute) != recomputations.end();
}

Abilities abilities(const Costs& cost) {
  if (cost.autograd) {
    Abilities own{.own_layers = true,
                  .offloads_optimizer = cost.host.optimizer_per_parameter > 0,
                  .zero = {1, 3}};
    if (cost.host.per_byte > 0) own.recomputations.push_back(Recompute::kOffload);
    return own;
  }
  Abilities packflow{
      .recomputations = {all_recomputations().begin(), all_recomputations().end()},
      .largest_merge = 1 << std::min<std::size_t>(cost.kinds.front().merge.size(), 30),
      .spreads_vocabulary = true,
      .zero = {1, 2, 3},
      .exchanges_attention = !windowed(cost),
      .keeps_by_token = true,
      .leaves_forwards = false,
  };
  if (cost.host.per_byte == 0) std::erase(packflow.recomputations, Recompute::kOffload);
  return packflow;
}

}  // namespace slimpack
