// FCP (arXiv:2602.21788): flexible context parallelism. Steps:
//  1. Best-fit decreasing packs the sequences into atomic groups. The longest sequence of a group
//     says how many replicas it needs; it has room for so many replicas' tokens.
//  2. A round takes the groups that take longest, as long as replicas are left.
//  3. The round's replicas are allotted such that its longest group is as short as possible.
//  4. Replicas that are left double groups in turn, where that makes these faster.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/sharing_rounds.h"

namespace slimpack {
namespace {

struct AtomicGroup {
  std::int32_t least = 1;  ///< replicas
  std::vector<SequenceId> sequences = {};
  GroupTimes times = {};
};

std::vector<AtomicGroup> atomic_groups(const SequenceLengths& lengths,
                                       const ContextSharing& sharing) {
  std::vector<SequenceId> order = all_sequences(lengths);
  sort_longest_first(lengths, order);
  std::vector<AtomicGroup> groups;
  std::set<std::pair<Tokens, std::size_t>> rooms;  ///< of groups; the oldest of equals first
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    auto best = rooms.lower_bound({length, 0});
    if (best == rooms.end()) {
      const std::int32_t least = sharing.replicas_for(length);
      best = rooms.emplace(sharing.per_replica * least, groups.size()).first;
      groups.push_back({least});
    }
    const auto [room, group] = *best;
    rooms.erase(best);
    rooms.emplace(room - length, group);
    groups[group].sequences.push_back(id);
  }
  return groups;
}

/// A group's time on its least number of replicas, on twice as many, and so on.
void put_times(std::vector<AtomicGroup>& groups, const BaselineInput& input, std::int32_t largest) {
  for (std::int32_t count = 1; count <= largest; count *= 2) {
    const PackCost cost = step_cost(input.table, count);
    for (AtomicGroup& group : groups) {
      if (group.least > count) continue;
      double time = cost.per_pack;
      for (const SequenceId id : group.sequences)
        time += cost(Slice{id, Tokens(0), input.lengths[id.index()]});
      group.times.push_back(time);
    }
  }
}

/// Takes the groups that take longest and fit the replicas out of groups[begin …), and moves
/// `begin` past what is gone. Cost: O(groups up to the last that is taken), for a round is full
/// long before the last group.
std::vector<AtomicGroup> taken(std::vector<AtomicGroup>& groups, std::size_t& begin,
                               std::int32_t replicas) {
  std::vector<AtomicGroup> round;
  std::size_t end = begin;
  std::vector<AtomicGroup> waiting;
  for (; end < groups.size() && replicas > 0; ++end) {
    AtomicGroup& group = groups[end];
    const bool fits = group.least <= replicas;
    if (fits) replicas -= group.least;
    (fits ? round : waiting).push_back(std::move(group));
  }
  begin = end - waiting.size();
  std::ranges::move(waiting, groups.begin() + static_cast<std::ptrdiff_t>(begin));
  return round;
}

std::vector<std::int32_t> least_replicas(const std::vector<AtomicGroup>& round) {
  std::vector<std::int32_t> least;
  for (const AtomicGroup& group : round) least.push_back(group.least);
  return least;
}

SharingRound placed(std::vector<AtomicGroup> round, std::int32_t replicas) {
  std::vector<GroupTimes> times;
  for (const AtomicGroup& group : round) times.push_back(group.times);
  const auto counts = allotted_replicas(times, least_replicas(round), replicas);
  std::vector<std::size_t> order(round.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return counts[i]; });
  SharingRound out;
  for (const std::size_t i : order)
    out.push_back({.count = counts[i], .sequences = std::move(round[i].sequences)});
  return side_by_side(std::move(out));
}

}  // namespace

std::vector<std::int32_t> allotted_replicas(const std::vector<GroupTimes>& times,
                                            const std::vector<std::int32_t>& least,
                                            std::int32_t replicas) {
  /// The fewest replicas of each group with which it takes no longer; none if that is too many.
  const auto within = [&](double limit) {
    std::vector<std::int32_t> counts;
    std::int32_t free = replicas;
    for (std::size_t i = 0; i < times.size() && free >= 0; ++i) {
      const auto first = std::ranges::find_if(times[i], [&](double t) { return t <= limit; });
      if (first == times[i].end()) return std::vector<std::int32_t>();
      counts.push_back(least[i] << (first - times[i].begin()));
      free -= counts.back();
    }
    return free >= 0 ? counts : std::vector<std::int32_t>();
  };
  std::vector<double> limits;
  for (const GroupTimes& group : times) limits.insert(limits.end(), group.begin(), group.end());
  std::ranges::sort(limits);
  const auto shortest = std::ranges::partition_point(
      limits, [&](double limit) { return within(limit).size() < times.size(); });
  SLIMPACK_CHECK(shortest != limits.end());
  std::vector<std::int32_t> counts = within(*shortest);
  std::int32_t free = std::accumulate(counts.begin(), counts.end(), replicas, std::minus<>());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::size_t now = 0;
      while (least[i] << now < counts[i]) ++now;
      if (counts[i] > free || now + 1 >= times[i].size() || times[i][now + 1] >= times[i][now])
        continue;
      free -= counts[i];
      counts[i] *= 2;
      more = true;
    }
  }
  return counts;
}

std::vector<SharingRound> flexible_rounds(const BaselineInput& input,
                                          const ContextSharing& sharing) {
  std::vector<AtomicGroup> left = atomic_groups(input.lengths, sharing);
  put_times(left, input, sharing.largest);
  std::ranges::stable_sort(left, std::ranges::greater(),
                           [](const AtomicGroup& group) { return group.times.front(); });
  std::vector<SharingRound> rounds;
  for (std::size_t begin = 0; begin < left.size();)
    rounds.push_back(placed(taken(left, begin, input.replicas()), input.replicas()));
  return rounds;
}

}  // namespace slimpack
