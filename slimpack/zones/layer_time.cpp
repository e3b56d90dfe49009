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

/// A ring for each zone: zones over nodes first, then those inside nodes, then the local ones.
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

/// When messages of rings that share links arrive: those of one ring after those of another one.
class Messages {
 public:
  Messages(const LinkMap& links, std::int32_t ranks)
      : links_(links),
        nodes_(static_cast<std::size_t>(links.nodes(ranks)), 0.0),
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

/// A ring's rounds on one of its ranks.
struct Rounds {
  double start = 0;    ///< of the first message
  double message = 0;  ///< nanoseconds
  double work = 0;     ///< of each round
  std::int32_t left = 0;
  std::int32_t done = 0;

  /// When the next round may run: its own keys and values are there from the beginning.
  [[nodiscard]] double ready() const { return done == 0 ? 0 : start + message * done; }
};

/// The end of a rank's attention. It runs the first of its rings whose next round is ready, in the
/// order in which it prefers them.
double end_of(std::vector<Rounds> rings) {
  double now = 0;
  while (!rings.empty()) {
    auto next = std::ranges::find_if(rings, [&](const Rounds& r) { return r.ready() <= now; });
    if (next == rings.end()) next = std::ranges::min_element(rings, {}, &Rounds::ready);
    now = std::max(now, next->ready()) + next->work;
    ++next->done;
    if (--next->left == 0) rings.erase(next);
  }
  return now;
}

/// By rank the end of its attention, queues overlapping.
std::vector<double> queued(const std::vector<Ring>& rings, const ZonedLayer& layer,
                           const LinkMap& links, std::int32_t ranks, bool route) {
  std::vector<std::vector<Rounds>> rings_of_rank(static_cast<std::size_t>(ranks));
  Messages messages(links, ranks);
  for (const Ring& ring : rings) {
    const double message = ring.message(layer, links, route);
    const Rounds rounds{messages.start(ring, message), message, ring.work(layer), ring.rounds()};
    for (std::vector<Rounds>& of_rank : of_zone(rings_of_rank, ring.ranks))
      of_rank.push_back(rounds);
  }
  std::vector<double> ends;
  for (std::vector<Rounds>& of_rank : rings_of_rank) ends.push_back(end_of(std::move(of_rank)));
  return ends;
}

/// By rank the end of its attention, where a rank ends one zone before it begins the next one.
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

/// All sequences in one ring of all ranks.
Ring whole_ring(const SequenceLengths& lengths, const LinkMap& links, std::int32_t ranks) {
  return rings_of(lengths, Zones(lengths.size(), {0, ranks}), links)[0];
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
  const Ring all = whole_ring(lengths, links, ranks);
  const double work =
      layer.cost.per_slice + all.rows * layer.attention_per_token + all.pairs * layer.cost.per_pair;
  const double bytes = all.rows * ranks * layer.ring_bytes;
  const double others = 1 - 1.0 / links.nodes(ranks);
  const double across =
      others == 0 ? 0
                  : links.nic_latency + bytes * others / links.nics_per_node * links.nic_per_byte;
  const double inside = links.node_latency + bytes * links.node_per_byte;
  return {.attention = work + std::max(across, inside), .rows = rows_time(layer, all.rows)};
}

LayerTime two_level_layer_time(const SequenceLengths& lengths, const LinkMap& links,
                               std::int32_t ranks, const ZonedLayer& layer) {
  const Ring all = whole_ring(lengths, links, ranks);
  const double nodes = links.nodes(ranks), per_node = ranks / nodes;
  const double work = layer.cost.per_slice + all.rows * layer.attention_per_token +
                      all.pairs / nodes * layer.cost.per_pair;
  const double message = links.nic_latency + all.rows * layer.ring_bytes * per_node /
                                                 links.nics_per_node * links.nic_per_byte;
  const double leaving = all.rows * (1 - 1 / per_node) * (layer.ring_bytes + layer.remap_bytes);
  const double exchange = 2 * links.node_latency + leaving * links.node_per_byte;
  return {.attention = exchange + work + (nodes - 1) * std::max(work, message),
          .rows = rows_time(layer, all.rows)};
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
