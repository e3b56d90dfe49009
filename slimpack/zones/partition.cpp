#include "slimpack/zones/zones.h"

#include <algorithm>
#include <cmath>
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
Tokens share(Tokens tokens, std::int64_t parts) {
  return Tokens((tokens.count() + parts - 1) / parts);
}

/// Parts of at most so many tokens.
std::int32_t parts_of(Tokens tokens, Tokens most) {
  return static_cast<std::int32_t>(share(tokens, most.count()).count());
}

double square(Tokens tokens) {
  const auto n = static_cast<double>(tokens.count());
  return n * n;
}

void require_room(const SequenceLengths& lengths, const ZoneProblem& problem) {
  if (total_tokens(lengths) > problem.ranks * problem.rank_tokens)
    invalid_input(
        "{} tokens are more than {} ranks of {} tokens hold; train with fewer tokens a step or on "
        "more ranks",
        total_tokens(lengths).count(), problem.ranks, problem.rank_tokens.count());
}

/// The number of sequences that are longer than `bound`. REQUIRES: longest first.
std::size_t longer_than(const SequenceLengths& lengths, const Sequences& ids, Tokens bound) {
  return static_cast<std::size_t>(
      std::ranges::count_if(ids, [&](SequenceId s) { return lengths[s.index()] > bound; }));
}

/// Tokens and squares of lengths that the ranks of a group, or the nodes of a batch, have so far.
struct Loads {
  std::vector<Tokens> tokens;
  std::vector<double> squares;

  explicit Loads(std::int32_t members, Tokens each = Tokens(0))
      : tokens(static_cast<std::size_t>(members), each),
        squares(static_cast<std::size_t>(members), 0) {}
};

/// Whole sequences on the members of a group that have room, each on the one with the least
/// Σ length². nullopt: one finds no room.
std::optional<std::vector<std::int32_t>> whole_on_members(const SequenceLengths& lengths,
                                                          std::span<const SequenceId> ids,
                                                          Loads loads, Tokens most) {
  std::vector<std::int32_t> member_of;
  for (const SequenceId s : ids) {
    const Tokens length = lengths[s.index()];
    std::optional<std::size_t> best;
    for (std::size_t m = 0; m < loads.tokens.size(); ++m)
      if (loads.tokens[m] + length <= most && (!best || loads.squares[m] < loads.squares[*best]))
        best = m;
    if (!best) return std::nullopt;
    loads.tokens[*best] += length;
    loads.squares[*best] += square(length);
    member_of.push_back(static_cast<std::int32_t>(*best));
  }
  return member_of;
}

/// Algorithm 2: the ranks of `group` share the first sequences, and each has some of the others.
/// `each`: tokens that every rank has already.
void place_in_group(const SequenceLengths& lengths, const Sequences& ids, const Zone& group,
                    Tokens each, Tokens most, Tokens bound, Zones& zones) {
  for (std::size_t shared = longer_than(lengths, ids, bound);; ++shared) {
    Tokens begun = each;
    for (std::size_t i = 0; i < shared; ++i) begun += share(lengths[ids[i].index()], group.size);
    const auto rest = std::span(ids).subspan(shared);
    const auto members = whole_on_members(lengths, rest, Loads(group.size, begun), most);
    if (!members) continue;  // with all of them shared, nothing is left that needs room
    for (std::size_t i = 0; i < shared; ++i) zones[ids[i].index()] = group;
    for (std::size_t i = 0; i < rest.size(); ++i)
      zones[rest[i].index()] = {group.first + (*members)[i], 1};
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

  /// Gives a sequence to the `count` neighbouring nodes whose fullest one has the fewest tokens.
  Zone add(Tokens length, std::int32_t count) {
    Zone best{0, count};
    for (Zone nodes = best; nodes.end() <= this->count(); ++nodes.first)
      if (fullest(nodes) < fullest(best)) best = nodes;
    const Tokens each = share(length, count);
    for (Tokens& tokens : of_zone(tokens_, best)) tokens += each;
    if (count > 1)
      for (Tokens& tokens : of_zone(spanning_, best)) tokens += each;
    return best;
  }

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(tokens_.size()); }
  [[nodiscard]] bool fit() const { return fullest({0, count()}) <= most_; }
  /// Tokens of a node's ranks that are those of sequences on several nodes.
  [[nodiscard]] Tokens spanning(std::int32_t node) const {
    return spanning_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] Zone ranks(const Zone& nodes) const {
    return {nodes.first * per_node_, nodes.size * per_node_};
  }

 private:
  [[nodiscard]] Tokens fullest(const Zone& nodes) const {
    return std::ranges::max(of_zone(tokens_, nodes));
  }

  std::int32_t per_node_;
  Tokens most_;
  std::vector<Tokens> tokens_, spanning_;
};

/// Algorithm 1's result: by sequence the nodes that share it.
struct NodeChoice {
  Nodes nodes;
  std::vector<Zone> of;
};

/// The choice with the first `spanning` sequences on several nodes. `bound`: the most tokens that a
/// node takes of one of them. nullopt: some node does not hold its tokens.
std::optional<NodeChoice> on_nodes(const SequenceLengths& lengths, const Sequences& ids,
                                   const ZoneProblem& problem, Tokens most, std::size_t spanning,
                                   Tokens bound) {
  NodeChoice choice{Nodes(problem, most), std::vector<Zone>(lengths.size())};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Tokens length = lengths[ids[i].index()];
    const std::int32_t wanted = i < spanning ? std::max(2, parts_of(length, bound)) : 1;
    choice.of[ids[i].index()] = choice.nodes.add(length, std::min(wanted, choice.nodes.count()));
  }
  if (!choice.nodes.fit() && spanning < ids.size()) return std::nullopt;
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
    // The next sequence spans nodes, too. The longest one that is left decides how many nodes a
    // longer one needs.
    bound = spanning + 1 < ids.size() ? lengths[ids[spanning + 1].index()] : Tokens(1);
  }
}

}  // namespace

Tokens crossover(const PackCost& alone, const PackCost& shared, std::int32_t ranks) {
  const double pack = shared.per_pack - alone.per_pack;
  const double token = shared.per_token + std::min(shared.travel.per_query, shared.travel.per_key) -
                       alone.per_token / ranks;
  const double square = shared.per_pair / 2;
  if (square <= 0) return kNeverShared;
  const double length = (token + std::sqrt(token * token + 4 * square * pack)) / (2 * square);
  const auto most = static_cast<double>(kNeverShared.count());
  return Tokens(std::llround(std::clamp(length, 1.0, most)));
}

Zones zeppelin_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                     const ZoneCrossovers& crossovers) {
  require_room(lengths, problem);
  Sequences ids = all_sequences(lengths);
  sort_longest_first(lengths, ids);
  const NodeChoice choice = choose_nodes(lengths, ids, problem, crossovers.across);
  Zones zones(lengths.size());
  for (std::int32_t node = 0; node < choice.nodes.count(); ++node) {
    Sequences inside;
    for (const SequenceId s : ids)
      if (choice.of[s.index()] == Zone{node, 1}) inside.push_back(s);
    const Zone ranks = choice.nodes.ranks({node, 1});
    place_in_group(lengths, inside, ranks, share(choice.nodes.spanning(node), ranks.size),
                   problem.rank_tokens, std::min(problem.rank_tokens, crossovers.node), zones);
  }
  for (const SequenceId s : ids)
    if (choice.of[s.index()].size > 1) zones[s.index()] = choice.nodes.ranks(choice.of[s.index()]);
  return zones;
}

}  // namespace slimpack
