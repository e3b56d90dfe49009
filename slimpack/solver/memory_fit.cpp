#include "slimpack/solver/memory_fit.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/solver/lower_hull.h"

namespace slimpack {
namespace {

/// Forward and backward of all sequences on a rank.
double time_of(const StageTable& table, std::int32_t rank, const WholeSequences& sequences) {
  return sequences.time(table.rank(rank, Pass::kForward) + table.rank(rank, Pass::kBackward));
}

}  // namespace

MemoryFit::MemoryFit(const BoundProblem& problem) : cap_(std::numeric_limits<double>::infinity()) {
  const auto& [table, lengths, limits] = problem;
  if (!limits.memory_cap || !table.abilities().keeps_by_token) return;
  cap_ = static_cast<double>(limits.memory_cap->count());
  const WholeSequences sequences(lengths);
  std::vector<StageTable> by_policy;
  for (const Recompute recompute : limits.recompute)
    by_policy.push_back(table.recomputing(recompute));
  for (std::int32_t r = 0; r < table.layout().ranks(); ++r) {
    // Less the byte that a mixture of policies may be rounded up by.
    const auto bytes = [&](const StageTable& of) {
      return static_cast<double>(of.sequence_bytes(r, Tokens(1)).count() - 1);
    };
    std::vector<Policy> policies;
    if (limits.recompute.empty()) policies.push_back({bytes(table), 0});
    const double least = time_of(table, r, sequences);
    for (const StageTable& policy : by_policy)
      policies.push_back({bytes(policy), std::max(0.0, time_of(policy, r, sequences) - least)});
    policies_.push_back(lower_hull(std::move(policies)));
  }
}

double MemoryFit::most_bytes(Tokens length, std::size_t k) const {
  const std::int64_t replicas = std::int64_t{1} << k;
  const std::int64_t share = (length.count() + replicas - 1) / replicas;
  return cap_ / static_cast<double>(share);
}

bool MemoryFit::holds(Tokens length, std::size_t k) const {
  const double most = most_bytes(length, k);
  return std::ranges::all_of(policies_,
                             [&](const auto& of_rank) { return of_rank.front().bytes <= most; });
}

double MemoryFit::again(std::int32_t rank, Tokens length, std::size_t k) const {
  if (policies_.empty()) return 0;
  const std::vector<Policy>& hull = policies_[static_cast<std::size_t>(rank)];
  const double most = most_bytes(length, k);
  const auto next =
      std::ranges::find_if(hull, [&](const Policy& policy) { return policy.bytes > most; });
  const Policy& fewer = *std::prev(next);
  if (next == hull.end()) return fewer.time;
  return fewer.time -
         (fewer.time - next->time) * (most - fewer.bytes) / (next->bytes - fewer.bytes);
}

}  // namespace slimpack
