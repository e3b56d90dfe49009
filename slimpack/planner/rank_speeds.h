// Rank speeds: those of a job's ranks as the planner takes them.
#pragma once

#include <span>
#include <vector>

#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Job::speed, [replica][stage], from speeds by rank. Rank (replica · pp + stage) · tp + t is one
/// of the tp tensor-parallel ranks of a stage; the slowest of these sets the stage's speed. Ranks
/// beyond the last entry have speed 1. Empty = all 1.
[[nodiscard]] std::vector<std::vector<double>> stage_speeds(std::span<const double> by_rank,
                                                            const ParallelGrid& grid);

}  // namespace slimpack
