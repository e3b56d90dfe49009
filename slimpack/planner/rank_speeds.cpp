#include "slimpack/planner/rank_speeds.h"

#include <algorithm>
#include <cstddef>

namespace slimpack {

std::vector<std::vector<double>> stage_speeds(std::span<const double> by_rank,
                                              const ParallelGrid& grid) {
  if (by_rank.empty()) return {};
  const auto ranks = static_cast<std::size_t>(grid.tp);
  std::vector<std::vector<double>> speed(static_cast<std::size_t>(grid.dp),
                                         std::vector<double>(static_cast<std::size_t>(grid.pp)));
  std::size_t first = 0;
  for (std::vector<double>& replica : speed)
    for (double& stage : replica) {
      const std::span<const double> known = by_rank.subspan(std::min(first, by_rank.size()));
      const std::span<const double> own = known.first(std::min(ranks, known.size()));
      stage = own.size() < ranks ? 1.0 : own.front();
      for (const double rank : own) stage = std::min(stage, rank);
      first += ranks;
    }
  return speed;
}

}  // namespace slimpack
