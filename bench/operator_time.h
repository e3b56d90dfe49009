// Operator time: how long libtorch's operators ran, whoever called them.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"

namespace slimpack {

/// Counts from its construction to its destruction, on all threads; an operator that another one
/// calls counts once. One at a time, and none is made or destroyed while operators run. Each
/// operator takes about a microsecond longer, so what is timed meanwhile is a little slow.
class OperatorTime {
 public:
  OperatorTime();
  ~OperatorTime();
  OperatorTime(const OperatorTime&) = delete;
  OperatorTime& operator=(const OperatorTime&) = delete;

  /// Of all threads together.
  [[nodiscard]] Nanos total() const;

 private:
  std::uint64_t handle_;
};

}  // namespace slimpack
