// Tasks that do not depend on each other, on libtorch's own threads.
#pragma once

#include <cstdint>
#include <functional>

namespace slimpack {

/// Calls work(0) … work(count − 1), each once, on as many threads as libtorch uses in the calling
/// thread. Calls of libtorch inside one run on the thread that they are called from. The next free
/// thread takes the next index, so put long tasks first. Rethrows what a task throws.
void for_each_task(std::int64_t count, const std::function<void(std::int64_t)>& work);

}  // namespace slimpack
