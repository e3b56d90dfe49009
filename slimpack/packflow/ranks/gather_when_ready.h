// Processes that wait for each other's slow work.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

/// What every process gives, as JobProcess::all_gather, once all have it: work on files may take
/// longer than the timeout of a wait, so those that are done ask again and again. Throws what `own`
/// throws.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::shared_future<std::string>& own);

}  // namespace slimpack
