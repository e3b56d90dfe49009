#include "bench/zeppelin/methods.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "slimpack/cost/stage_table.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/zones/zones.h"

namespace slimpack::bench {
namespace {

/// Forward and backward of all layers.
PackCost both_passes(const Costs& known, std::int32_t replicas) {
  const StageTable table = stage_table(known, balanced_layout(known, {Tokens(1)}, 1));
  return table.stage(StageId(0), Pass::kForward, replicas) +
         table.stage(StageId(0), Pass::kBackward, replicas);
}

/// Ranks of which neighbours share sequences.
class Neighbours {
 public:
  explicit Neighbours(const ZoneProblem& problem)
      : ranks_(problem.ranks),
        most_(problem.rank_tokens),
        tokens_(static_cast<std::size_t>(problem.ranks)),
        squares_(tokens_.size()) {}

  /// Gives a sequence to `size` of them, or to more where none have room, or to all.
  Zone take(Tokens length, std::int32_t size) {
    std::optional<Zone> zone;
    for (; size < ranks_ && !(zone = least_loaded(length, size)); ++size) {
    }
    if (!zone) zone = Zone{0, ranks_};
    const auto n = static_cast<double>(length.count());
    for (Tokens& tokens : of_zone(tokens_, *zone)) tokens += share(length, zone->size);
    for (double& squares : of_zone(squares_, *zone)) squares += n * n / zone->size;
    return *zone;
  }

 private:
  static Tokens share(Tokens length, std::int32_t size) {
    return (length + Tokens(size - 1)) / size;
  }

  /// The block of so many ranks that has room and the least Σ length².
  [[nodiscard]] std::optional<Zone> least_loaded(Tokens length, std::int32_t size) const {
    std::optional<Zone> best;
    double least = 0;
    for (Zone zone{0, size}; zone.end() <= ranks_; zone.first += size) {
      const double squares = std::ranges::max(of_zone(squares_, zone));
      if (std::ranges::max(of_zone(tokens_, zone)) + share(length, size) > most_) continue;
      if (best && squares >= least) continue;
      best = zone;
      least = squares;
    }
    return best;
  }

  std::int32_t ranks_;
  Tokens most_;
  std::vector<Tokens> tokens_;
  std::vector<double> squares_;
};

/// Each sequence, longest first, gets as many neighbouring ranks as it needs, and `least` at least.
Zones neighbour_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                      std::int32_t least) {
  std::vector<SequenceId> ids = all_sequences(lengths);
  std::ranges::stable_sort(ids, std::greater(), [&](SequenceId s) { return lengths[s.index()]; });
  Neighbours ranks(problem);
  Zones zones(lengths.size());
  for (const SequenceId s : ids) {
    const Tokens length = lengths[s.index()];
    const Tokens bound = problem.rank_tokens;
    const auto needed =
        static_cast<std::int32_t>((length.count() + bound.count() - 1) / bound.count());
    zones[s.index()] = ranks.take(length, std::max(least, needed));
  }
  return zones;
}

}  // namespace

std::vector<Method> zeppelin_methods() {
  constexpr auto kRing = CpCommType::kP2P;
  return {
      {.name = "1 ring", .context = {kRing}, .rival = true},
      {.name = "rings", .context = {kRing}, .sharing = Sharing::kRings, .rival = true},
      {.name = "gather", .context = {CpCommType::kAllGather}, .rival = true},
      {.name = "hybrid", .context = {kRing}, .sharing = Sharing::kHybrid, .rival = true},
      {.name = "long", .context = {kRing}, .sharing = Sharing::kLongOnly, .rival = true},
      {.name = "+route", .context = {kRing, true}},
      {.name = "+zones", .context = {kRing}, .sharing = Sharing::kZeppelin},
      {.name = "+both", .context = {kRing, true}, .sharing = Sharing::kZeppelin},
      {.name = "zeppelin", .context = {kRing, true}, .sharing = Sharing::kZeppelin, .remap = true},
      {.name = "direct",
       .context = {CpCommType::kDirect, true},
       .sharing = Sharing::kZeppelin,
       .remap = true}};
}

ZoneCrossovers crossovers_of(const ZoneProblem& problem, const Costs& cost) {
  const auto from = [&](std::int32_t ranks) {
    return crossover(both_passes(cost, 1), both_passes(cost, ranks), ranks);
  };
  const std::int32_t node = std::min(problem.links.ranks_per_node, problem.ranks);
  return {from(node), from(std::min(2 * node, problem.ranks))};
}

std::vector<Zones> zones_of(const Method& method, const SequenceLengths& lengths,
                            const ZoneProblem& problem, const Costs& cost) {
  std::vector<Zones> rings;
  switch (method.sharing) {
    case Sharing::kRings:
      for (std::int32_t size = 1; size <= problem.ranks; size *= 2)
        rings.push_back(neighbour_zones(lengths, problem, size));
      return rings;
    case Sharing::kHybrid:
      return {neighbour_zones(lengths, problem, 1)};
    case Sharing::kLongOnly: {
      ZoneProblem one_node = problem;
      one_node.links.ranks_per_node = problem.ranks;
      return {zeppelin_zones(lengths, one_node, {problem.rank_tokens, problem.rank_tokens})};
    }
    case Sharing::kZeppelin:
      return {zeppelin_zones(lengths, problem, crossovers_of(problem, cost))};
    case Sharing::kAllRanks:
      break;
  }
  return {Zones(lengths.size(), {0, problem.ranks})};
}

RatedPlan one_pack_step(const Method& method, const Zones& zones, const SequenceLengths& lengths,
                        const ZoneProblem& problem, const Costs& cost) {
  RatedPlan step;
  step.plan.lengths = lengths;
  step.plan.layout = balanced_layout(cost, lengths, 1);
  Zones rows;
  if (method.remap) rows = row_zones(lengths, zones, problem.links, problem.ranks);
  const MicroPack pack = zoned_pack(lengths, all_sequences(lengths), problem.ranks, zones, rows);
  for (std::int32_t r = 0; r < problem.ranks; ++r) {
    step.plan.replicas.push_back({all_sequences(lengths), {{pack}, {pack}}});
    step.schedules.push_back(one_f_one_b(step.plan.replicas.back().packs, 1));
  }
  require_valid_plan(step.plan, method.name);
  step.prediction = predict(step, cost);
  return step;
}

}  // namespace slimpack::bench
