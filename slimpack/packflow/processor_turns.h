// Processor turns: in virtual time no more ranks compute at once than the machine has processors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <semaphore>
#include <thread>

namespace slimpack {

/// Ranks that take turns do not displace each other's caches every few milliseconds, as threads do
/// that share a processor; so they take the time that each would take on its own. Thread-safe.
class ProcessorTurns {
 public:
  ProcessorTurns() : free_(std::max<std::ptrdiff_t>(1, std::thread::hardware_concurrency())) {}

  /// Waits for a processor.
  void take() { free_.acquire(); }
  void give_up() { free_.release(); }

 private:
  std::counting_semaphore<> free_;
};

}  // namespace slimpack
