// Kept costs: what a run has measured of its machine, in its output folder, for the next run.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "slimpack/packflow/profile/profile.h"

namespace slimpack {

/// Costs, and whether other load on the machine disturbed their measurement.
struct FreshCosts {
  Costs cost;
  bool disturbed = false;
};

/// The costs in `file` if they are fresh: a profile with these options on this machine, at most a
/// day old. Otherwise what `measure` measures, which `file` then keeps, unless it was disturbed or
/// a file is there that says anything else. `tell` gets a line on what is used or not, and why.
/// Throws as write_file. REQUIRES: no job.
[[nodiscard]] Costs kept_or_measured(const std::filesystem::path& file,
                                     const ProfileOptions& options,
                                     const std::function<FreshCosts()>& measure,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace slimpack
