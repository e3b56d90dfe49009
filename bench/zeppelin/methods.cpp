#include "bench/zeppelin/methods.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace slimpack::bench {
namespace {

constexpr ZoneOptions kPlain{.route = false, .remap = false, .queues = false};

double step_time(const Batch& batch, const Zones& zones, const ZoneOptions& options) {
  const auto pass = [&](const ZonedLayer& layer) {
    return layer_time(batch.lengths, zones, batch.links, batch.ranks, layer, options).total();
  };
  return batch.step_time(pass(batch.layer.forward), pass(batch.layer.backward));
}

/// A batch's zones where the problem limits the tokens of a rank; nullopt: it does not fit.
using ZonesOf = std::function<std::optional<Zones>(const Batch&, const ZoneProblem&)>;

/// The least time over what a rank may hold, from its share up to the batch's room.
Method tuned(const char* name, const ZonesOf& zones_of, const ZoneOptions& options) {
  return {.name = name, .step_time = [=](const Batch& batch) {
            double least = std::numeric_limits<double>::infinity();
            for (double room = 1; room <= batch.room; room += 0.25)
              if (const auto zones = zones_of(batch, batch.problem(room)))
                least = std::min(least, step_time(batch, *zones, options));
            return least;
          }};
}

Method rival(Method method) {
  method.rival = true;
  return method;
}

ZonesOf rings_of(std::int32_t size) {
  return [=](const Batch& batch, const ZoneProblem& problem) {
    return ring_zones(batch.lengths, problem, size);
  };
}

std::optional<Zones> one_ring(const Batch& batch, const ZoneProblem& problem) {
  return ring_zones(batch.lengths, problem, batch.ranks);
}

double best_rings(const Batch& batch) {
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t size = 1; size <= batch.ranks; size *= 2)
    least = std::min(least, tuned("", rings_of(size), kPlain).step_time(batch));
  return least;
}

/// A method in which all ranks run a layer together in another way than a ring.
template <class LayerTimeOf>
Method whole(const char* name, LayerTimeOf layer_time_of) {
  return {.name = name, .step_time = [=](const Batch& batch) {
            const auto pass = [&](const ZonedLayer& layer) {
              return layer_time_of(batch.lengths, batch.links, batch.ranks, layer).total();
            };
            return batch.step_time(pass(batch.layer.forward), pass(batch.layer.backward));
          }};
}

ZonesOf zeppelin(bool route) {
  return [=](const Batch& batch, const ZoneProblem& problem) {
    return zeppelin_zones(batch.lengths, problem,
                          zone_crossovers(batch.links, batch.layer.forward, route));
  };
}

std::optional<Zones> searched(const Batch& batch, const ZoneProblem& problem) {
  return best_zones(batch.lengths, problem, batch.layer, {});
}

std::optional<Zones> hybrid(const Batch& batch, const ZoneProblem& problem) {
  return hybrid_zones(batch.lengths, problem, problem.rank_tokens);
}

std::optional<Zones> longs(const Batch& batch, const ZoneProblem& problem) {
  return long_zones(batch.lengths, problem);
}

}  // namespace

const std::vector<Method>& zeppelin_methods() {
  static const std::vector<Method> methods{
      rival(tuned("1 ring", one_ring, kPlain)),
      rival({.name = "rings", .step_time = best_rings}),
      rival(whole("a2a", two_level_layer_time)),
      rival(whole("gather", gathered_layer_time)),
      rival(tuned("hybrid", hybrid, kPlain)),
      rival(tuned("long", longs, kPlain)),
      tuned("+route", one_ring, {.route = true, .remap = false, .queues = false}),
      tuned("+zones", zeppelin(false), {.route = false, .remap = false, .queues = true}),
      tuned("+both", zeppelin(true), {.route = true, .remap = false, .queues = true}),
      tuned("zeppelin", zeppelin(true), {.route = true, .remap = true, .queues = true}),
      tuned("searched", searched, {.route = true, .remap = true, .queues = true})};
  return methods;
}

}  // namespace slimpack::bench
