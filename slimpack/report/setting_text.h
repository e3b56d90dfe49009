// Changed settings of a job, as those who read a report would change them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The reader of a report, who sets its advice in this way.
enum class Reader : std::uint8_t {
  kProgram,  ///< --set plan.recompute=auto, keys of a run configuration
  kPython,   ///< Job(..., recompute="auto")
};

/// Settings such as "plan.recompute=auto" or "parallel.tp=4". In Python a job's `parallel` is one
/// argument, so a changed number of ranks gives the whole grid. REQUIRES: settings of [plan] and
/// [parallel]; `grid` as they change it.
[[nodiscard]] std::string setting_text(const std::vector<std::string>& settings,
                                       const ParallelGrid& grid, Reader reader);

}  // namespace slimpack
