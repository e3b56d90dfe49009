#include "slimpack/zones/partition.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

using Sequences = std::vector<SequenceId>;

/// Tokens that each of `parts` holds of so many, at most.
Tokens share(Tokens tokens, std::size_t parts) {
  const auto n = static_cast<std::int64_t>(parts);
  return Tokens((tokens.count() + n - 1) / n);
}

double square(Tokens tokens) {
  const auto n = static_cast<double>(tokens.count());
  return n * n;
}

Zone neighbours(std::int32_t first, std::int32_t count) {
  Zone zone(static_cast<std::size_t>(count));
  std::iota(zone.begin(), zone.end(), first);
  return zone;
}

void require_room(const SequenceLengths& lengths, const ZoneProblem& problem) {
  if (total_tokens(lengths) > problem.ranks * problem.rank_tokens)
    invalid_input(
        "{} tokens are more than {} ranks of {} tokens hold; train with fewer tokens a step or on "
        "more ranks",
        total_tokens(lengths).count(), problem.ranks, problem.rank_tokens.count());
}

Sequences longest_first(const SequenceLengths& lengths) {
  Sequences ids = all_sequences(lengths);
  std::ranges::stable_sort(ids, std::greater(), [&](SequenceId s) { return lengths[s.index()]; });
  return ids;
}

/// The number of sequences that are longer than `bound`. REQUIRES: longest first.
std::size_t longer_than(const SequenceLengths& lengths, const Sequences& ids, Tokens bound) {
  return static_cast<std::size_t>(
      std::ranges::count_if(ids, [&](SequenceId s) { return lengths[s.index()] > bound; }));
}

/// What the ranks of a group, or the nodes of a batch, have so far.
struct Loads {
  std::vector<Tokens> tokens;
  std::vector<double> squares;

  explicit Loads(std::size_t members, Tokens each = Tokens(0))
      : tokens(members, each), squares(members, 0) {}
};

/// Whole sequences on the members of a group that have room, each on the one with the least
/// Σ length². nullopt: one finds no room.
std::optional<std::vector<std::size_t>> whole_on_members(const SequenceLengths& lengths,
                                                         std::span<const SequenceId> ids,
                                                         Loads loads, Tokens most) {
  std::vector<std::size_t> member_of;
  for (const SequenceId s : ids) {
    const Tokens length = lengths[s.index()];
    std::optional<std::size_t> best;
    for (std::size_t m = 0; m < loads.tokens.size(); ++m)
      if (loads.tokens[m] + length <= most && (!best || loads.squares[m] < loads.squares[*best]))
        best = m;
    if (!best) return std::nullopt;
    loads.tokens[*best] += length;
    loads.squares[*best] += square(length);
    member_of.push_back(*best);
  }
  return member_of;
}

/// Algorithm 2: the ranks of `group` share the first sequences, and each has some of the others.
/// `each`: tokens that every rank has already.
void place_in_group(const SequenceLengths& lengths, const Sequences& ids, const Zone& group,
                    Tokens each, Tokens most, Tokens bound, Zones& zones) {
  for (std::size_t shared = longer_than(lengths, ids, bound);; ++shared) {
    Tokens begun = each;
    for (std::size_t i = 0; i < shared; ++i) begun += share(lengths[ids[i].index()], group.size());
    const auto rest = std::span(ids).subspan(shared);
    const auto members = whole_on_members(lengths, rest, Loads(group.size(), begun), most);
    if (!members) continue;  // with all of them shared, nothing is left that needs room
    for (std::size_t i = 0; i < shared; ++i) zones[ids[i].index()] = group;
    for (std::size_t i = 0; i < rest.size(); ++i) zones[rest[i].index()] = {group[(*members)[i]]};
    return;
  }
}

/// The nodes of a batch and what they hold.
class Nodes {
 public:
  Nodes(const ZoneProblem& problem, Tokens most)
      : per_node_(std::min(problem.links.ranks_per_node, problem.ranks)),
        most_(most),
        tokens_(static_cast<std::size_t>(problem.ranks / per_node_)),
        spanning_(tokens_.size()) {}

  /// Adds a sequence to the `count` nodes with the fewest tokens. False: they lack the room.
  bool add(Tokens length, std::size_t count) {
    std::vector<std::size_t> order(tokens_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t n) { return tokens_[n]; });
    order.resize(count);
    std::ranges::sort(order);
    bool fits = true;
    for (const std::size_t n : order) {
      tokens_[n] += share(length, count);
      if (count > 1) spanning_[n] += share(length, count);
      fits = fits && tokens_[n] <= most_;
    }
    last_ = std::move(order);
    return fits;
  }

  [[nodiscard]] std::size_t count() const { return tokens_.size(); }
  [[nodiscard]] Tokens spanning(std::size_t node) const { return spanning_[node]; }
  /// The nodes of the sequence that was added last.
  [[nodiscard]] const std::vector<std::size_t>& last() const { return last_; }
  [[nodiscard]] Zone ranks(std::size_t node) const {
    return neighbours(static_cast<std::int32_t>(node) * per_node_, per_node_);
  }
  [[nodiscard]] Zone ranks(const std::vector<std::size_t>& nodes) const {
    Zone zone;
    for (const std::size_t node : nodes)
      for (const std::int32_t rank : ranks(node)) zone.push_back(rank);
    return zone;
  }

 private:
  std::int32_t per_node_;
  Tokens most_;
  std::vector<Tokens> tokens_, spanning_;
  std::vector<std::size_t> last_;
};

/// Algorithm 1's result: by sequence the nodes that share it.
struct NodeChoice {
  Nodes nodes;
  std::vector<std::vector<std::size_t>> of;
};

/// With the first `spanning` sequences on several nodes. `bound`: what a node takes of one at most.
/// nullopt: some node does not hold what it got.
std::optional<NodeChoice> on_nodes(const SequenceLengths& lengths, const Sequences& ids,
                                   const ZoneProblem& problem, Tokens most, std::size_t spanning,
                                   Tokens bound) {
  NodeChoice choice{Nodes(problem, most), std::vector<std::vector<std::size_t>>(lengths.size())};
  bool fits = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Tokens length = lengths[ids[i].index()];
    const auto wanted =
        static_cast<std::size_t>(share(length, static_cast<std::size_t>(bound.count())).count());
    const std::size_t count =
        i < spanning ? std::min(std::max<std::size_t>(2, wanted), choice.nodes.count()) : 1;
    fits = choice.nodes.add(length, count) && fits;
    choice.of[ids[i].index()] = choice.nodes.last();
  }
  if (!fits && spanning < ids.size()) return std::nullopt;
  return choice;
}

NodeChoice choose_nodes(const SequenceLengths& lengths, const Sequences& ids,
                        const ZoneProblem& problem, Tokens across) {
  const std::int32_t per_node = std::min(problem.links.ranks_per_node, problem.ranks);
  const Tokens most = per_node * problem.rank_tokens;
  if (per_node == problem.ranks) return *on_nodes(lengths, ids, problem, most, 0, most);
  Tokens bound = std::min(most, across);
  for (std::size_t spanning = longer_than(lengths, ids, bound);; ++spanning) {
    if (auto choice = on_nodes(lengths, ids, problem, most, spanning, bound))
      return *std::move(choice);
    // The next one spans nodes, too. What is left decides how many a longer one needs.
    bound = spanning + 1 < ids.size() ? lengths[ids[spanning + 1].index()] : Tokens(1);
  }
}

/// Ranks of which neighbours share sequences.
class Neighbours {
 public:
  explicit Neighbours(const ZoneProblem& problem)
      : ranks_(problem.ranks),
        most_(problem.rank_tokens),
        loads_(static_cast<std::size_t>(problem.ranks)) {}

  /// Gives a sequence to `size` of them, or to more where none have room, or to all.
  Zone take(Tokens length, std::int32_t size) {
    std::optional<Zone> zone;
    for (; size < ranks_ && !(zone = least_loaded(length, size)); ++size) {
    }
    if (!zone) zone = neighbours(0, ranks_);
    for (const std::int32_t rank : *zone) {
      loads_.tokens[static_cast<std::size_t>(rank)] += share(length, zone->size());
      loads_.squares[static_cast<std::size_t>(rank)] +=
          square(length) / static_cast<double>(zone->size());
    }
    return *std::move(zone);
  }

 private:
  /// Of the blocks of so many that have room the one with the least Σ length².
  [[nodiscard]] std::optional<Zone> least_loaded(Tokens length, std::int32_t size) const {
    std::optional<Zone> best;
    double least = 0;
    const Tokens each = share(length, static_cast<std::size_t>(size));
    for (std::int32_t first = 0; first + size <= ranks_; first += size) {
      const auto tokens =
          std::span(loads_.tokens)
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
      const auto squares =
          std::span(loads_.squares)
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
      if (std::ranges::max(tokens) + each > most_) continue;
      if (best && std::ranges::max(squares) >= least) continue;
      best = neighbours(first, size);
      least = std::ranges::max(squares);
    }
    return best;
  }

  std::int32_t ranks_;
  Tokens most_;
  Loads loads_;
};

}  // namespace

Zones zeppelin_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                     const ZoneCrossovers& crossovers) {
  require_room(lengths, problem);
  const Sequences ids = longest_first(lengths);
  const NodeChoice choice = choose_nodes(lengths, ids, problem, crossovers.across);
  Zones zones(lengths.size());
  for (std::size_t node = 0; node < choice.nodes.count(); ++node) {
    Sequences inside;
    for (const SequenceId s : ids)
      if (choice.of[s.index()] == std::vector{node}) inside.push_back(s);
    const Zone ranks = choice.nodes.ranks(node);
    place_in_group(lengths, inside, ranks, share(choice.nodes.spanning(node), ranks.size()),
                   problem.rank_tokens, std::min(problem.rank_tokens, crossovers.node), zones);
  }
  for (const SequenceId s : ids)
    if (choice.of[s.index()].size() > 1)
      zones[s.index()] = choice.nodes.ranks(choice.of[s.index()]);
  return zones;
}

std::optional<Zones> ring_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                                std::int32_t size) {
  if (size == problem.ranks) return Zones(lengths.size(), neighbours(0, size));
  const Sequences ids = longest_first(lengths);
  const auto rings =
      whole_on_members(lengths, ids, Loads(static_cast<std::size_t>(problem.ranks / size)),
                       size * problem.rank_tokens);
  if (!rings) return std::nullopt;
  Zones zones(lengths.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    zones[ids[i].index()] = neighbours(static_cast<std::int32_t>((*rings)[i]) * size, size);
  return zones;
}

Zones hybrid_zones(const SequenceLengths& lengths, const ZoneProblem& problem) {
  require_room(lengths, problem);
  Neighbours ranks(problem);
  Zones zones(lengths.size());
  for (const SequenceId s : longest_first(lengths)) {
    const Tokens length = lengths[s.index()];
    const Tokens least = share(length, static_cast<std::size_t>(problem.rank_tokens.count()));
    zones[s.index()] = ranks.take(length, static_cast<std::int32_t>(least.count()));
  }
  return zones;
}

Zones long_zones(const SequenceLengths& lengths, const ZoneProblem& problem) {
  require_room(lengths, problem);
  Zones zones(lengths.size());
  place_in_group(lengths, longest_first(lengths), neighbours(0, problem.ranks), Tokens(0),
                 problem.rank_tokens, problem.rank_tokens, zones);
  return zones;
}

}  // namespace slimpack
