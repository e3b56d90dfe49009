#include "slimpack/zones/layer_time.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "slimpack/zones/remap.h"

namespace slimpack {
namespace {

double count(Tokens tokens) {
  return static_cast<double>(tokens.count());
}

/// The sequences of one zone, as its ranks run them.
struct Ring {
  ZoneKind kind = ZoneKind::kLocal;
  Zone ranks;
  double rows = 0;   ///< of each rank
  double pairs = 0;  ///< of each rank in all rounds

  [[nodiscard]] std::int32_t rounds() const { return ranks.size; }
  /// Nanoseconds of one round.
  [[nodiscard]] double work(const ZonedLayer& layer) const {
    return layer.cost.per_slice + rows * layer.attention_per_token +
           pairs / rounds() * layer.cost.per_pair;
  }
  [[nodiscard]] double message(const ZonedLayer& layer, const LinkMap& links, bool route) const {
    const double bytes = rows * layer.ring_bytes;
    if (kind == ZoneKind::kLocal) return 0;
    const double inside = links.node_latency + bytes * links.node_per_byte;
    if (kind == ZoneKind::kNode) return inside;
    return std::max(inside, route ? routed_transfer(links, bytes, best_proxies(links, bytes))
                                  : direct_transfer(links, bytes));
  }
};

/// One for each zone: those over nodes first, then those inside them, then the local ones.
std::vector<Ring> rings_of(const SequenceLengths& lengths, const Zones& zones,
                           const LinkMap& links) {
  std::map<Zone, Ring> by_zone;
  for (std::size_t s = 0; s < zones.size(); ++s) {
    Ring& ring = by_zone[zones[s]];
    const double members = zones[s].size;
    ring.kind = zone_kind(links, zones[s]);
    ring.ranks = zones[s];
    ring.rows += count(lengths[s]) / members;
    ring.pairs += Slice{SequenceId(s), Tokens(0), lengths[s]}.causal_pairs() / members;
  }
  std::vector<Ring> rings;
  for (auto& [zone, ring] : by_zone) rings.push_back(std::move(ring));
  std::ranges::stable_sort(rings, std::greater(),
                           [](const Ring& ring) { return std::pair(ring.kind, ring.rows); });
  return rings;
}

/// A round on one rank: what it waits for, and how long it runs.
struct Round {
  double ready = 0;
  double work = 0;
};

/// When messages of rings that share links arrive: those of one ring after those of another one.
class Messages {
 public:
  Messages(const LinkMap& links, std::int32_t ranks)
      : links_(links),
        nodes_(static_cast<std::size_t>(links.node(ranks - 1) + 1), 0.0),
        ranks_(static_cast<std::size_t>(ranks), 0.0) {}

  /// When the first message of a ring starts, each of whose rounds takes `message`.
  double start(const Ring& ring, double message) {
    const auto busy = ring.kind == ZoneKind::kAcross ? of_zone(nodes_, nodes_of(ring.ranks))
                                                     : of_zone(ranks_, ring.ranks);
    const double start = std::ranges::max(busy);
    std::ranges::fill(busy, start + message * (ring.rounds() - 1));
    return start;
  }

 private:
  [[nodiscard]] Zone nodes_of(const Zone& ranks) const {
    const std::int32_t first = links_.node(ranks.first);
    return {first, links_.node(ranks.end() - 1) - first + 1};
  }

  const LinkMap& links_;
  std::vector<double> nodes_, ranks_;  ///< busy until then
};

/// By rank the rounds of its queues, in the order in which it prefers them.
using RankRounds = std::vector<std::vector<Round>>;

/// The end of a rank's attention. It runs the first round that is ready.
double end_of(std::vector<Round> rounds) {
  double now = 0;
  while (!rounds.empty()) {
    auto next = std::ranges::find_if(rounds, [&](const Round& r) { return r.ready <= now; });
    if (next == rounds.end()) next = std::ranges::min_element(rounds, {}, &Round::ready);
    now = std::max(now, next->ready) + next->work;
    rounds.erase(next);
  }
  return now;
}

/// By rank the end of its attention, queues overlapping.
std::vector<double> queued(const std::vector<Ring>& rings, const ZonedLayer& layer,
                           const LinkMap& links, std::int32_t ranks, bool route) {
  RankRounds rounds(static_cast<std::size_t>(ranks));
  Messages messages(links, ranks);
  for (const Ring& ring : rings) {
    const double message = ring.message(layer, links, route);
    const double start = messages.start(ring, message);
    for (std::vector<Round>& of_rank : of_zone(rounds, ring.ranks))
      for (std::int32_t round = 0; round < ring.rounds(); ++round)
        of_rank.push_back({round == 0 ? 0 : start + message * round, ring.work(layer)});
  }
  std::vector<double> ends;
  for (std::vector<Round>& of_rank : rounds) ends.push_back(end_of(std::move(of_rank)));
  return ends;
}

/// The same where a rank ends one zone before it begins the next one.
std::vector<double> one_by_one(const std::vector<Ring>& rings, const ZonedLayer& layer,
                               const LinkMap& links, std::int32_t ranks, bool route) {
  std::vector<double> ends(static_cast<std::size_t>(ranks), 0.0);
  for (const Ring& ring : rings) {
    const double work = ring.work(layer), message = ring.message(layer, links, route);
    const auto of_ring = of_zone(ends, ring.ranks);
    const double begin = std::ranges::max(of_ring);
    std::ranges::fill(of_ring, begin + work + (ring.rounds() - 1) * std::max(work, message));
  }
  return ends;
}

/// Nanoseconds of the layer's other parts on a rank with so many rows.
double rows_time(const ZonedLayer& layer, double rows) {
  return layer.cost.per_pack + rows * (layer.cost.per_token - layer.attention_per_token) +
         layer.cost.missing_rows(rows);
}

std::vector<double> rows_of_ranks(const std::vector<Ring>& rings, std::int32_t ranks) {
  std::vector<double> rows(static_cast<std::size_t>(ranks), 0.0);
  for (const Ring& ring : rings)
    for (double& of_rank : of_zone(rows, ring.ranks)) of_rank += ring.rows;
  return rows;
}

}  // namespace

LayerTime layer_time(const SequenceLengths& lengths, const Zones& zones, const LinkMap& links,
                     std::int32_t ranks, const ZonedLayer& layer, const ZoneOptions& options) {
  const std::vector<Ring> rings = rings_of(lengths, zones, links);
  const std::vector<double> rows = rows_of_ranks(rings, ranks);
  const std::vector<double> attention = options.queues
                                            ? queued(rings, layer, links, ranks, options.route)
                                            : one_by_one(rings, layer, links, ranks, options.route);
  LayerTime apart;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const LayerTime of_rank{.attention = attention[r], .rows = rows_time(layer, rows[r])};
    if (of_rank.total() > apart.total()) apart = of_rank;
  }
  if (!options.remap) return apart;
  const double balanced = std::accumulate(rows.begin(), rows.end(), 0.0) / ranks;
  const LayerTime remapped{.attention = std::ranges::max(attention),
                           .rows = rows_time(layer, balanced),
                           .remap = remap_time(links, remapping(links, rows), layer.remap_bytes)};
  return remapped.total() < apart.total() ? remapped : apart;
}

LayerTime gathered_layer_time(const SequenceLengths& lengths, const LinkMap& links,
                              std::int32_t ranks, const ZonedLayer& layer) {
  const std::vector<Ring> rings = rings_of(lengths, Zones(lengths.size(), {0, ranks}), links);
  double work = 0, rows = 0;
  for (const Ring& ring : rings) {
    rows += ring.rows;
    work += layer.cost.per_slice + ring.rows * layer.attention_per_token +
            ring.pairs * layer.cost.per_pair;
  }
  const double bytes = rows * ranks * layer.ring_bytes;
  const auto nodes = static_cast<double>(links.node(ranks - 1) + 1);
  const double across = nodes == 1
                            ? 0
                            : links.nic_latency + bytes * (nodes - 1) / nodes /
                                                      links.nics_per_node * links.nic_per_byte;
  const double inside = links.node_latency + bytes * links.node_per_byte;
  return {.attention = work + std::max(across, inside), .rows = rows_time(layer, rows)};
}

ZoneCrossovers zone_crossovers(const LinkMap& links, const ZonedLayer& layer, bool route) {
  const auto hides = [&](std::int32_t ranks, Tokens tokens) {
    const std::vector<Ring> ring = rings_of({tokens}, {{0, ranks}}, links);
    return ring[0].pairs / ranks * layer.cost.per_pair >= ring[0].message(layer, links, route);
  };
  // Pairs grow faster than messages do, so that bisection finds the one crossing.
  const auto crossing = [&](std::int32_t ranks) {
    constexpr Tokens kNever{std::int64_t{1} << 32};
    Tokens low{1}, high = kNever;
    while (low < high) {
      const Tokens middle = (low + high) / 2;
      if (hides(ranks, middle)) {
        high = middle;
      } else {
        low = middle + Tokens(1);
      }
    }
    return low;
  };
  return {.node = crossing(links.ranks_per_node), .across = crossing(2 * links.ranks_per_node)};
}

}  // namespace slimpack
