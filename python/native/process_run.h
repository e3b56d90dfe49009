// A training run as one of several processes, which PyTorch connects.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/training/train.h"

namespace slimpack {

/// A process must know this before it can be connected to the others.
struct ProcessNeeds {
  double timeout = 0;             ///< seconds
  std::string device;             ///< cpu or cuda
  std::vector<RankGroup> groups;  ///< that it needs a process group for, in the order to make them
};

/// Throws InvalidInput when `ranks` processes are not those that the configuration needs.
[[nodiscard]] ProcessNeeds process_needs(const RunConfig& config, std::int32_t rank,
                                         std::int32_t ranks);

/// Trains as process `rank`. `names`: under which PyTorch knows the groups that are needed. Returns
/// when all processes have trained to the end. When one fails, all end with an exit code that is
/// not 0: the first to know of it says why, with its rank, in one line on stderr. Their output
/// files appear complete or not at all.
void run_process(const TrainRequest& request, std::int32_t rank,
                 const std::map<RankGroup, std::string>& names);

}  // namespace slimpack
