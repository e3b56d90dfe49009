// Processes that wait for each other's slow work.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

/// What every process gives, as JobProcess::all_gather, once all have it: slow work may take longer
/// than the timeout of a wait, so those that are done ask again and again. `ready` waits at most so
/// long for the own work, and says whether it is done; then `own` is called, once. Throws what they
/// throw.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::function<bool(std::chrono::milliseconds)>& ready,
    const std::function<std::string()>& own);

/// The same of a result that is under way.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::shared_future<std::string>& own);

}  // namespace slimpack
