// Rank speeds: those of a job's ranks as the planner takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slimpack {

/// Job::speed, [replica][stage], of speeds by rank: rank (replica · pp + stage) · tp + t is
/// one of the tp tensor-parallel ranks of a stage, which go as fast as their slowest. Ranks beyond
/// the last entry have speed 1. Empty = all 1.
[[nodiscard]] std::vector<std::vector<double>> stage_speeds(std::span<const double> by_rank,
                                                            std::int32_t pp, std::int32_t dp,
                                                            std::int32_t tp);

}  // namespace slimpack
