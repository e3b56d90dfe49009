// Processor turns: in virtual time no more ranks compute at once than there are processors.
#pragma once

#include <semaphore>

#include "slimpack/packflow/device/processors.h"

namespace slimpack {

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
