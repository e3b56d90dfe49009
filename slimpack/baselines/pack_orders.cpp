#include "slimpack/baselines/pack_orders.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace slimpack {
namespace {

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
