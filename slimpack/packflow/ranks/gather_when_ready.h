// Gathers the results of slow work from all processes.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

/// The texts of all processes, as JobProcess::all_gather, once every process has its text. Slow
/// work may take longer than the timeout of one all_gather, so the processes repeat short ones
/// until all are ready. `ready` waits for this process's work, at most the given time, and returns
/// whether it is done. Then `own` is called once and returns the text. Throws what `ready` and
/// `own` throw.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::function<bool(std::chrono::milliseconds)>& ready,
    const std::function<std::string()>& own);

/// gather_when_ready of a future's text.
[[nodiscard]] std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::shared_future<std::string>& own);

}  // namespace slimpack
