#include "slimpack/solver/assign.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "slimpack/base/error.h"
#include "slimpack/solver/balance.h"

namespace slimpack {
namespace {

Slice whole(const SequenceLengths& lengths, SequenceId q) {
  return {q, Tokens(0), lengths[q.index()]};
}

/// k of the smallest group that the sequence does not load too much, else of the largest.
std::size_t group_for(const Slice& sequence, std::span<const PackCost> groups, double most) {
  std::size_t k = 0;
  while (k + 1 < groups.size() && groups[k](sequence) > most) ++k;
  return k;
}

/// The first replica of the group of `count` whose most loaded member is lightest.
std::size_t lightest_group(const std::vector<double>& load, std::size_t count) {
  std::size_t lightest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first + count <= load.size(); first += count) {
    const auto begin = load.begin() + static_cast<std::ptrdiff_t>(first);
    const double highest = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count));
    if (highest < least) {
      least = highest;
      lightest = first;
    }
  }
  return lightest;
}

/// `rest`: the sequences that are the problem's items.
void balance_rest(const BalanceProblem& problem, const std::vector<SequenceId>& rest,
                  const std::optional<milp::SolveLimits>& exact, Assignment& assignment) {
  Balance result = balance(problem);
  if (exact && assignment.merged.empty() &&
      rest.size() * problem.replicas.size() <= kMaxExactBalance)
    result = balance_exact(problem, result, *exact);
  for (std::size_t i = 0; i < rest.size(); ++i)
    assignment.own[static_cast<std::size_t>(result.replica[i])].push_back(rest[i]);
  for (auto& own : assignment.own) std::sort(own.begin(), own.end());
  assignment.load = result.load;
}

/// Largest groups first, then longest sequences.
void sort_merged(const SequenceLengths& lengths, std::vector<MergedSequence>& merged) {
  std::ranges::sort(merged, {}, [&](const MergedSequence& m) {
    return std::tuple(-m.replicas, -lengths[m.sequence.index()].count(), m.sequence);
  });
}

/// Merges a sequence of the heaviest of the 2^k replicas from `first` on. False: none is worth it.
bool level_group(const SequenceLengths& lengths, std::span<const double> speed,
                 std::span<const PackCost> groups, std::size_t first, std::size_t k, double least,
                 Assignment& assignment) {
  std::vector<double>& load = assignment.load;
  const auto group = load.begin() + static_cast<std::ptrdiff_t>(first);
  const auto count = std::ptrdiff_t{1} << k;
  const auto heavy =
      static_cast<std::size_t>(std::max_element(group, group + count) - load.begin());
  const std::size_t end = first + static_cast<std::size_t>(count);
  // The highest load of the group if the sequence ran on all of it.
  const auto highest = [&](SequenceId q) {
    double most = 0;
    for (std::size_t r = first; r < end; ++r) {
      const double own = r == heavy ? groups.front()(whole(lengths, q)) : 0;
      most = std::max(most, load[r] + (groups[k](whole(lengths, q)) - own) / speed[r]);
    }
    return most;
  };
  std::vector<SequenceId>& own = assignment.own[heavy];
  const auto best = std::ranges::min_element(own, {}, highest);
  if (best == own.end() || highest(*best) > load[heavy] * (1 - least)) return false;
  const SequenceId q = *best;
  own.erase(best);
  assignment.merged.push_back({q, ReplicaId(first), static_cast<std::int32_t>(count)});
  load[heavy] -= groups.front()(whole(lengths, q)) / speed[heavy];
  for (std::size_t r = first; r < end; ++r) load[r] += groups[k](whole(lengths, q)) / speed[r];
  return true;
}

}  // namespace

Assignment levelled(const SequenceLengths& lengths, std::span<const double> speed,
                    std::span<const PackCost> groups, Assignment assignment, double least) {
  for (std::size_t k = 1; k < groups.size(); ++k) {
    const std::size_t count = std::size_t{1} << k;
    for (std::size_t first = 0; first + count <= speed.size(); first += count)
      while (level_group(lengths, speed, groups, first, k, least, assignment)) continue;
  }
  sort_merged(lengths, assignment.merged);
  return assignment;
}

Assignment assign(const SequenceLengths& lengths, std::span<const double> speed,
                  std::span<const PackCost> groups, double merge_above,
                  const std::optional<milp::SolveLimits>& exact) {
  SLIMPACK_CHECK(!speed.empty() && !groups.empty());
  SLIMPACK_CHECK((std::size_t{1} << (groups.size() - 1)) <= speed.size());
  double work = 0;
  for (std::size_t q = 0; q < lengths.size(); ++q)
    work += groups.front()(whole(lengths, SequenceId(q)));
  const double most = merge_above * work / std::accumulate(speed.begin(), speed.end(), 0.0);

  Assignment assignment;
  std::vector<SequenceId> rest;
  BalanceProblem balanced;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Slice sequence = whole(lengths, SequenceId(i));
    const std::size_t k = group_for(sequence, groups, most);
    if (k == 0) {
      rest.emplace_back(i);
      balanced.work.push_back(groups.front()(sequence));
    } else {
      assignment.merged.push_back(
          {SequenceId(i), ReplicaId(0), static_cast<std::int32_t>(std::int64_t{1} << k)});
    }
  }
  sort_merged(lengths, assignment.merged);

  assignment.own.resize(speed.size());
  assignment.load.assign(speed.size(), 0);
  for (MergedSequence& m : assignment.merged) {
    const auto count = static_cast<std::size_t>(m.replicas);
    const std::size_t first = lightest_group(assignment.load, count);
    m.first = ReplicaId(first);
    const double share = groups[std::bit_width(count) - 1](whole(lengths, m.sequence));
    for (std::size_t r = first; r < first + count; ++r) assignment.load[r] += share / speed[r];
  }
  for (std::size_t r = 0; r < speed.size(); ++r)
    balanced.replicas.push_back({speed[r], assignment.load[r]});
  balance_rest(balanced, rest, exact, assignment);
  return assignment;
}

}  // namespace slimpack
