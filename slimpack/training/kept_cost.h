// Kept costs: what a run has measured of its machine, in its output folder, for the next run.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "slimpack/packflow/profile/profile.h"

namespace slimpack {

/// The costs in `file` if they are fresh: a profile with these options on this machine, at most a
/// day old. Otherwise measures, which takes some seconds, and keeps the result in `file`, unless a
/// file is there that says anything else. `tell` gets a line on what is used and why, and the lines
/// of measured_costs. Throws as write_file. REQUIRES: no job.
[[nodiscard]] Costs kept_or_measured(const std::filesystem::path& file,
                                     const ProfileOptions& options,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace slimpack
