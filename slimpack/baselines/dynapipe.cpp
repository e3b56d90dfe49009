// DynaPipe's micro-batches.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

/// Of largest costs that are closer than this, only one is tried (DynaPipe: within 5 µs).
constexpr double kNextLargest = 1.001;

struct Split {
  std::vector<std::size_t> ends;
  std::int64_t largest = 0;
  /// The least higher limit under which a pack would hold one item more; 0 = there is none.
  std::int64_t next_limit = 0;
};

/// The fewest consecutive packs of at most `limit` each. Costs add up, so filling every pack finds
/// what DynaPipe's dynamic program finds for this limit. REQUIRES: limit ≥ every cost.
Split fewest_packs(const SplitProblem& problem, std::int64_t limit) {
  Split split;
  std::int64_t cost = 0;
  Tokens tokens;
  for (std::size_t i = 0; i < problem.costs.size(); ++i) {
    if (tokens + problem.lengths[i] > problem.capacity || cost + problem.costs[i] > limit) {
      if (tokens + problem.lengths[i] <= problem.capacity) {
        const std::int64_t raised = cost + problem.costs[i];
        split.next_limit = split.next_limit == 0 ? raised : std::min(split.next_limit, raised);
      }
      split.ends.push_back(i);
      split.largest = std::max(split.largest, cost);
      cost = 0;
      tokens = Tokens(0);
    }
    cost += problem.costs[i];
    tokens += problem.lengths[i];
  }
  split.ends.push_back(problem.costs.size());
  split.largest = std::max(split.largest, cost);
  return split;
}

}  // namespace

// 1. Begin with the least possible limit, the largest item.
// 2. Split under the limit and rate the split; raise the limit to the next one that changes it.
std::vector<std::size_t> consecutive_split(const SplitProblem& problem) {
  if (problem.costs.empty()) return {};
  SLIMPACK_CHECK(problem.costs.size() == problem.lengths.size());
  const auto total = static_cast<double>(
      std::accumulate(problem.costs.begin(), problem.costs.end(), std::int64_t{0}));
  std::int64_t limit = *std::max_element(problem.costs.begin(), problem.costs.end());
  std::vector<std::size_t> best;
  double least = std::numeric_limits<double>::infinity();
  while (limit > 0) {
    Split split = fewest_packs(problem, limit);
    const double packs = static_cast<double>(split.ends.size());
    const double time =
        (total + packs * problem.pack_overhead) / problem.replicas +
        (problem.stages - 1) * (problem.pack_overhead + static_cast<double>(split.largest));
    if (time < least) {
      least = time;
      best = std::move(split.ends);
    }
    const auto skipped = static_cast<std::int64_t>(static_cast<double>(limit) * kNextLargest);
    limit = split.next_limit == 0 ? 0 : std::max(split.next_limit, skipped);
  }
  return best;
}

BaselinePlan dynapipe_baseline(const Job& job, const SequenceLengths& lengths,
                               const RecomputingCosts& cost) {
  std::vector<SequenceId> order = all_sequences(lengths);
  std::stable_sort(order.begin(), order.end(), [&](SequenceId a, SequenceId b) {
    return lengths[a.index()] > lengths[b.index()];
  });
  const std::vector<std::int64_t> by_sequence = sequence_costs(job.layout, lengths, cost);
  std::vector<std::int64_t> costs;
  std::vector<Tokens> sorted;
  for (const SequenceId id : order) {
    costs.push_back(by_sequence[id.index()]);
    sorted.push_back(lengths[id.index()]);
  }
  double overhead = 0;
  for (std::int32_t s = 0; s < job.layout.stages(); ++s)
    for (const Pass pass : kWholePasses)
      overhead += stage_cost(cost, job.layout, StageId(s), pass).per_pack;

  std::vector<std::vector<SequenceId>> packs;
  std::vector<std::int64_t> pack_costs;
  std::size_t begin = 0;
  for (const std::size_t end : consecutive_split(
           {costs, sorted, job.context, overhead, job.layout.stages(), job.replicas})) {
    packs.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                       order.begin() + static_cast<std::ptrdiff_t>(end));
    pack_costs.push_back(std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(begin),
                                         costs.begin() + static_cast<std::ptrdiff_t>(end),
                                         static_cast<std::int64_t>(overhead)));
    begin = end;
  }
  std::vector<std::vector<std::vector<SequenceId>>> dealt;
  for (const auto& share : karmarkar_karp(pack_costs, static_cast<std::size_t>(job.replicas))) {
    auto& own = dealt.emplace_back();
    for (const std::size_t pack : share) own.push_back(packs[pack]);
  }
  return {.plan = whole_step(job.layout, lengths, dealt), .discipline = Discipline::kListSchedule};
}

}  // namespace slimpack
