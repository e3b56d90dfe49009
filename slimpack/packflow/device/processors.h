// Processors: those that this process may run on.
#pragma once

#include <cstdint>
#include <vector>

namespace slimpack {

/// Numbers of the processors that the calling thread may run on, ascending: all of the machine's,
/// or what `taskset`, a container or a batch system left of them. Empty where the system does not
/// say.
[[nodiscard]] std::vector<int> usable_processors();

/// How many threads of this process can run at once; at least 1.
[[nodiscard]] std::int32_t processors();

}  // namespace slimpack
