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

double work_on(const AssignProblem& problem, SequenceId q, std::size_t k) {
  return problem.groups[k](Slice{q, Tokens(0), problem.lengths[q.index()]});
}

/// k of the smallest group that the sequence does not load too much, else of the largest.
std::size_t group_for(const AssignProblem& problem, SequenceId q, double most) {
  std::size_t k = 0;
  while (k + 1 < problem.groups.size() && work_on(problem, q, k) > most) ++k;
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

void balance_rest(const AssignProblem& problem, const std::vector<SequenceId>& rest,
                  Assignment& assignment) {
  BalanceProblem balanced;
  for (const SequenceId q : rest) balanced.work.push_back(work_on(problem, q, 0));
  for (std::size_t r = 0; r < problem.speed.size(); ++r)
    balanced.replicas.push_back({problem.speed[r], assignment.load[r]});
  Balance result = balance(balanced);
  if (problem.exact && assignment.merged.empty() &&
      rest.size() * balanced.replicas.size() <= kMaxExactBalance)
    result = balance_exact(balanced, result, *problem.exact);
  for (std::size_t i = 0; i < rest.size(); ++i)
    assignment.own[static_cast<std::size_t>(result.replica[i])].push_back(rest[i]);
  for (auto& own : assignment.own) std::sort(own.begin(), own.end());
  assignment.load = result.load;
}

/// Largest groups first, then longest sequences.
void sort_merged(const AssignProblem& problem, std::vector<MergedSequence>& merged) {
  std::ranges::sort(merged, {}, [&](const MergedSequence& m) {
    return std::tuple(-m.replicas, -problem.lengths[m.sequence.index()].count(), m.sequence);
  });
}

/// The highest load of the group from `first` on, if `q` of its replica `heavy` ran on all 2^k.
double highest_when_merged(const AssignProblem& problem, const Assignment& assignment, SequenceId q,
                           std::size_t heavy, std::size_t first, std::size_t k) {
  double highest = 0;
  for (std::size_t r = first; r < first + (std::size_t{1} << k); ++r) {
    const double own = r == heavy ? work_on(problem, q, 0) : 0;
    highest =
        std::max(highest, assignment.load[r] + (work_on(problem, q, k) - own) / problem.speed[r]);
  }
  return highest;
}

/// False: no sequence of the heaviest replica is worth it.
bool level_group(const AssignProblem& problem, std::size_t first, std::size_t k, double least,
                 Assignment& assignment) {
  const auto group = assignment.load.begin() + static_cast<std::ptrdiff_t>(first);
  const auto count = std::ptrdiff_t{1} << k;
  const auto heavy =
      static_cast<std::size_t>(std::max_element(group, group + count) - assignment.load.begin());
  std::vector<SequenceId>& own = assignment.own[heavy];
  const auto highest = [&](SequenceId q) {
    return highest_when_merged(problem, assignment, q, heavy, first, k);
  };
  const auto best = std::ranges::min_element(own, {}, highest);
  if (best == own.end() || highest(*best) > assignment.load[heavy] * (1 - least)) return false;
  const SequenceId q = *best;
  own.erase(best);
  assignment.merged.push_back({q, ReplicaId(first), static_cast<std::int32_t>(count)});
  assignment.load[heavy] -= work_on(problem, q, 0) / problem.speed[heavy];
  for (std::size_t r = first; r < first + static_cast<std::size_t>(count); ++r)
    assignment.load[r] += work_on(problem, q, k) / problem.speed[r];
  return true;
}

}  // namespace

Assignment levelled(const AssignProblem& problem, Assignment assignment, double least) {
  for (std::size_t k = 1; k < problem.groups.size(); ++k) {
    const std::size_t count = std::size_t{1} << k;
    for (std::size_t first = 0; first + count <= assignment.load.size(); first += count)
      while (level_group(problem, first, k, least, assignment)) continue;
  }
  sort_merged(problem, assignment.merged);
  return assignment;
}

Assignment assign(const AssignProblem& problem, double merge_above) {
  SLIMPACK_CHECK(!problem.speed.empty() && !problem.groups.empty());
  SLIMPACK_CHECK((std::size_t{1} << (problem.groups.size() - 1)) <= problem.speed.size());
  double work = 0;
  for (std::size_t q = 0; q < problem.lengths.size(); ++q)
    work += work_on(problem, SequenceId(q), 0);
  const double most =
      merge_above * work / std::accumulate(problem.speed.begin(), problem.speed.end(), 0.0);

  Assignment assignment;
  std::vector<SequenceId> rest;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    const std::size_t k = group_for(problem, SequenceId(i), most);
    if (k == 0)
      rest.emplace_back(i);
    else
      assignment.merged.push_back(
          {SequenceId(i), ReplicaId(0), static_cast<std::int32_t>(std::int64_t{1} << k)});
  }
  sort_merged(problem, assignment.merged);

  assignment.own.resize(problem.speed.size());
  assignment.load.assign(problem.speed.size(), 0);
  for (MergedSequence& m : assignment.merged) {
    const auto count = static_cast<std::size_t>(m.replicas);
    const std::size_t first = lightest_group(assignment.load, count);
    m.first = ReplicaId(first);
    const double share = work_on(problem, m.sequence, std::bit_width(count) - 1);
    for (std::size_t r = first; r < first + count; ++r)
      assignment.load[r] += share / problem.speed[r];
  }
  balance_rest(problem, rest, assignment);
  return assignment;
}

}  // namespace slimpack
