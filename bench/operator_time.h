// Operator time: how long libtorch's operators ran, whoever called them.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>

#include "slimpack/base/units.h"

namespace slimpack {

/// Counts from its construction to its destruction, on all threads; an operator that another one
/// calls counts as that one's. One at a time, and none is made or destroyed while operators run.
/// Each operator takes about a microsecond longer, so work that is timed meanwhile is a little
/// slow. On a device that computes in a queue each operator waits until it is done, so a step takes
/// longer than without counting.
class OperatorTime {
 public:
  explicit OperatorTime(at::Device device = at::Device(at::kCPU));
  ~OperatorTime();
  OperatorTime(const OperatorTime&) = delete;
  OperatorTime& operator=(const OperatorTime&) = delete;

  /// The time of all threads together.
  [[nodiscard]] Nanos total() const;
  /// The time by operator: "aten::mm".
  [[nodiscard]] std::map<std::string, Nanos> by_operator() const;

 private:
  std::uint64_t handle_;
};

}  // namespace slimpack
