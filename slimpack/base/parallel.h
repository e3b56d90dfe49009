// Parallel: calls that do not depend on each other, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace slimpack {

/// How many threads the machine runs at once, at least 1.
[[nodiscard]] int machine_threads();

/// Calls work(0) … work(count − 1), each once, and returns when all have ended. The caller and up
/// to `threads` − 1 threads that live as long as the call take one index after the other. Any
/// thread may take any index, so no call may read what another writes. If calls throw, all others
/// run nevertheless, and the exception of the lowest index is thrown. Where the system has no
/// thread left, those that have started do everything.
void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace slimpack
