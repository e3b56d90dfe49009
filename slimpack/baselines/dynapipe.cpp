// DynaPipe's micro-batches.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"

namespace slimpack {
namespace {

/// Limits of a pack's cost are tried in ascending order. A limit that is closer to the one before
/// than this ratio is skipped (DynaPipe: closer than 5 µs).
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

constexpr std::size_t kFewPacks = 20;
constexpr int kMeansRounds = 50;

std::size_t nearest_center(const std::vector<double>& centers, double cost) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < centers.size(); ++k)
    if (std::abs(cost - centers[k]) < std::abs(cost - centers[best])) best = k;
  return best;
}

/// By pack, its cluster: Lloyd's rounds from centers spread evenly over the sorted costs.
std::vector<std::size_t> clusters_of(std::span<const std::int64_t> costs, std::size_t count) {
  std::vector<std::int64_t> sorted(costs.begin(), costs.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> centers;
  for (std::size_t k = 0; k < count; ++k)
    centers.push_back(static_cast<double>(sorted[(2 * k + 1) * sorted.size() / (2 * count)]));
  std::vector<std::size_t> cluster(costs.size(), count);
  for (int round = 0; round < kMeansRounds; ++round) {
    std::vector<double> sum(count, 0);
    std::vector<double> members(count, 0);
    bool changed = false;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const auto cost = static_cast<double>(costs[i]);
      const std::size_t k = nearest_center(centers, cost);
      changed |= cluster[i] != k;
      cluster[i] = k;
      sum[k] += cost;
      members[k] += 1;
    }
    if (!changed) break;
    for (std::size_t k = 0; k < count; ++k)
      if (members[k] > 0) centers[k] = sum[k] / members[k];
  }
  return cluster;
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
  do {  // once even where every item is free
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
  } while (limit > 0);
  return best;
}

SequencePacks dynapipe_packs(const BaselineInput& input) {
  std::vector<SequenceId> order = all_sequences(input.lengths);
  sort_longest_first(input.lengths, order);
  const std::vector<std::int64_t> by_sequence = sequence_costs(input);
  std::vector<std::int64_t> costs;
  std::vector<Tokens> sorted;
  for (const SequenceId id : order) {
    costs.push_back(by_sequence[id.index()]);
    sorted.push_back(input.lengths[id.index()]);
  }
  SequencePacks packs;
  std::size_t begin = 0;
  for (const std::size_t end :
       consecutive_split({costs, sorted, pack_tokens(input), step_cost(input.table).per_pack,
                          input.layout().stages(), input.replicas()})) {
    packs.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                       order.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return packs;
}

BaselinePlan dynapipe_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  return {.plan = whole_step(input, shares), .discipline = Discipline::kCyclic};
}

std::vector<Tuning> dynapipe_tunings(const BaselineInput& input) {
  return pack_tunings(input);
}

std::vector<std::vector<std::size_t>> pack_orders(std::span<const std::int64_t> costs) {
  std::vector<std::size_t> given(costs.size());
  std::iota(given.begin(), given.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> orders{given};
  if (costs.size() < 2) return orders;
  const std::size_t count = std::min<std::size_t>(costs.size(), costs.size() > kFewPacks ? 3 : 4);
  const std::vector<std::size_t> cluster = clusters_of(costs, count);
  std::vector<std::size_t> places(count);  // place of each cluster
  std::iota(places.begin(), places.end(), std::size_t{0});
  do {
    std::vector<std::size_t> order = given;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return places[cluster[a]] < places[cluster[b]];
    });
    if (std::find(orders.begin(), orders.end(), order) == orders.end())
      orders.push_back(std::move(order));
  } while (std::next_permutation(places.begin(), places.end()));
  return orders;
}

}  // namespace slimpack
