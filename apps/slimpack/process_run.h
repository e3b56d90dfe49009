// A training run as one of several processes, which PyTorch connects.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/slimpack/training_commands.h"
#include "slimpack/packflow/rank_groups.h"

namespace slimpack {

/// What a process must know before it can be connected to the others.
struct ProcessNeeds {
  double timeout = 0;             ///< seconds
  std::vector<RankGroup> groups;  ///< that it needs a process group for, in the order to make them
};

/// Throws InvalidInput, also when `ranks` processes are not those that the configuration needs.
[[nodiscard]] ProcessNeeds process_needs(const TrainArguments& arguments, std::int32_t rank,
                                         std::int32_t ranks);

/// Trains as process `rank`. `names`: under which PyTorch knows the groups that are needed. Returns
/// the exit code. Of all processes that fail, the first to know says so, with rank and cause, in
/// one line on stderr. Where others fail and this one cannot come to an end by itself, it ends the
/// process.
[[nodiscard]] int run_process(const TrainArguments& arguments, std::int32_t rank,
                              const std::map<RankGroup, std::string>& names);

}  // namespace slimpack
