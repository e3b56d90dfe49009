// Processors: those that this process may run on, and turns on them.
#pragma once

#include <cstdint>
#include <semaphore>
#include <vector>

namespace slimpack {

/// Numbers of the processors that the calling thread may run on, ascending: all of the machine's,
/// or what `taskset`, a container or a batch system left of them. Empty where the system does not
/// say.
[[nodiscard]] std::vector<int> usable_processors();

/// How many threads of this process can run at once; at least 1.
[[nodiscard]] std::int32_t processors();

/// Lets no more ranks compute at once than there are processors, in virtual time. Threads that
/// share a processor displace each other's caches. Ranks that take turns do not, so each takes as
/// long as it would alone. Thread-safe.
class ProcessorTurns {
 public:
  ProcessorTurns() : free_(processors()) {}

  /// Waits for a processor.
  void take() { free_.acquire(); }
  void give_up() { free_.release(); }

 private:
  std::counting_semaphore<> free_;
};

}  // namespace slimpack
