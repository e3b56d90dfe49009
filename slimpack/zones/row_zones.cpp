#include "slimpack/zones/zones.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

/// Ranks with rows up to so many times their share stay as they are.
constexpr double kEven = 1.02;

class Balancing {
 public:
  Balancing(const SequenceLengths& lengths, const Zones& zones, const LinkMap& links,
            std::int32_t ranks)
      : lengths_(lengths), zones_(zones), links_(links), rows_(static_cast<std::size_t>(ranks)) {
    for (std::size_t s = 0; s < zones_.size(); ++s) add(zones_[s], s, 1);
    even_ = kEven * std::accumulate(rows_.begin(), rows_.end(), 0.0) / ranks;
  }

  Zones run() {
    while (true) {
      const auto fullest = std::ranges::max_element(rows_);
      if (*fullest <= even_) return zones_;
      const auto move = best_move(static_cast<std::int32_t>(fullest - rows_.begin()));
      if (!move) return zones_;
      add(zones_[move->sequence], move->sequence, -1);
      zones_[move->sequence] = move->to;
      add(move->to, move->sequence, 1);
    }
  }

 private:
  struct Move {
    std::size_t sequence;
    Zone to;
    double fullest;  ///< rows of the fullest rank that has to do with it, after it
    [[nodiscard]] auto key(const SequenceLengths& lengths) const {
      return std::tuple(fullest, lengths[sequence]);
    }
  };

  void add(const Zone& zone, std::size_t sequence, double sign) {
    const double share = sign * static_cast<double>(lengths_[sequence].count()) / zone.size;
    for (double& rows : of_zone(rows_, zone)) rows += share;
  }

  /// The rank of these with the fewest rows.
  [[nodiscard]] std::int32_t emptiest(const Zone& among) const {
    const auto rows = of_zone(rows_, among);
    return among.first + static_cast<std::int32_t>(std::ranges::min_element(rows) - rows.begin());
  }

  [[nodiscard]] std::optional<Move> best_move(std::int32_t from) {
    const auto ranks = static_cast<std::int32_t>(rows_.size());
    const std::int32_t first = links_.node(from) * links_.ranks_per_node;
    const Zone node{first, std::min(links_.ranks_per_node, ranks - first)};
    const double before = rows_[static_cast<std::size_t>(from)];
    std::optional<Move> best;
    for (std::size_t s = 0; s < zones_.size(); ++s) {
      if (!zones_[s].has(from)) continue;
      for (const Zone& to : {Zone{emptiest(node), 1}, node, Zone{emptiest({0, ranks}), 1}}) {
        if (to == zones_[s]) continue;
        const Move move{s, to, fullest_after(s, to)};
        if (move.fullest < before && (!best || move.key(lengths_) < best->key(lengths_)))
          best = move;
      }
    }
    return best;
  }

  [[nodiscard]] double fullest_after(std::size_t sequence, const Zone& to) {
    const Zone from = zones_[sequence];
    add(from, sequence, -1);
    add(to, sequence, 1);
    const double fullest =
        std::max(std::ranges::max(of_zone(rows_, from)), std::ranges::max(of_zone(rows_, to)));
    add(to, sequence, -1);
    add(from, sequence, 1);
    return fullest;
  }

  const SequenceLengths& lengths_;
  Zones zones_;
  const LinkMap& links_;
  std::vector<double> rows_;
  double even_ = 0;
};

}  // namespace

Zones row_zones(const SequenceLengths& lengths, const Zones& zones, const LinkMap& links,
                std::int32_t ranks) {
  return Balancing(lengths, zones, links, ranks).run();
}

MicroPack zoned_pack(const SequenceLengths& lengths, const std::vector<SequenceId>& ids,
                     std::int32_t replicas, const Zones& zones, const Zones& row_zones) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return std::pair(-zones[i].size, zones[i].first); });
  MicroPack pack{{}, replicas};
  for (const std::size_t i : order) {
    pack.slices.push_back({ids[i], Tokens(0), lengths[ids[i].index()]});
    pack.zones.push_back(zones[i]);
    if (!row_zones.empty()) pack.row_zones.push_back(row_zones[i]);
  }
  return pack;
}

}  // namespace slimpack
