#include "slimpack/zones/search.h"

#include <limits>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

/// From which lengths on sequences may be shared: a fourfold grid up to what a member holds, and
/// never.
std::vector<Tokens> bounds_up_to(Tokens most) {
  constexpr Tokens kShortest{1'024};
  std::vector<Tokens> bounds{most};
  for (Tokens bound = kShortest; bound < most; bound = bound * 4) bounds.push_back(bound);
  return bounds;
}

std::vector<Zones> candidates(const SequenceLengths& lengths, const ZoneProblem& problem,
                              const ZoneCrossovers& crossovers) {
  std::vector<Zones> all{zeppelin_zones(lengths, problem, crossovers)};
  for (const Tokens node : bounds_up_to(problem.rank_tokens))
    for (const Tokens across : bounds_up_to(problem.links.ranks_per_node * problem.rank_tokens))
      all.push_back(zeppelin_zones(lengths, problem, {node, across}));
  for (std::int32_t size = 1; size <= problem.ranks; ++size)
    if (problem.ranks % size == 0)
      if (auto rings = ring_zones(lengths, problem, size)) all.push_back(*std::move(rings));
  for (const Tokens bound : bounds_up_to(problem.rank_tokens))
    all.push_back(hybrid_zones(lengths, problem, bound));
  return all;
}

}  // namespace

double passes_time(const SequenceLengths& lengths, const Zones& zones, const ZoneProblem& problem,
                   const LayerPasses& layer, const ZoneOptions& options) {
  const auto pass = [&](const ZonedLayer& of) {
    return layer_time(lengths, zones, problem.links, problem.ranks, of, options).total();
  };
  return pass(layer.forward) + pass(layer.backward);
}

Zones best_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                 const LayerPasses& layer, const ZoneOptions& options) {
  Zones best;
  double least = std::numeric_limits<double>::infinity();
  const ZoneCrossovers crossovers = zone_crossovers(problem.links, layer.forward, options.route);
  for (Zones& zones : candidates(lengths, problem, crossovers)) {
    const double time = passes_time(lengths, zones, problem, layer, options);
    if (time >= least) continue;
    least = time;
    best = std::move(zones);
  }
  return best;
}

}  // namespace slimpack
