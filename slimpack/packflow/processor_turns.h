// Processor turns: in virtual time no more ranks compute at once than the machine has processors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <semaphore>
#include <thread>

namespace slimpack {

/// How many threads the machine runs at once; at least 1.
[[nodiscard]] inline std::int32_t processors() {
  return static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
}

/// Ranks that take turns do not displace each other's caches every few milliseconds, as threads do
/// that share a processor; so they take the time that each would take on its own. Thread-safe.
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
