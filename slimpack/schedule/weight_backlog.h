// Weight backlog: the weight gradients that a stage has put off, and the memory that they take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/memory_guard.h"

namespace slimpack {

/// One stage of one replica. Weight gradients need nothing but the stage itself, so a stage that
/// lacks memory can always run what it has put off: only the moment counts, not the future.
class WeightBacklog {
 public:
  /// Keeps references.
  WeightBacklog(const MemoryGuard& guard, const TaskBytes& bytes, StageId stage);

  /// Highest bytes in any timing from the start of forward f, or of backward b whole or split,
  /// until the next action starts, after f forwards and b backwards.
  [[nodiscard]] Bytes peak_of_forward(std::int32_t f, std::int32_t b) const;
  [[nodiscard]] Bytes peak_of_backward(std::int32_t f, std::int32_t b, bool split) const;

  void put_off(std::int32_t b) { ++waiting_, operands_ += operands_of(b); }
  void run(std::int32_t b) { --waiting_, operands_ -= operands_of(b); }
  [[nodiscard]] bool empty() const { return waiting_ == 0; }

 private:
  [[nodiscard]] Bytes operands_of(std::int32_t b) const;
  /// Whether backward b exists and can be split.
  [[nodiscard]] bool knows(std::int32_t b) const;

  const MemoryGuard* guard_;
  const TaskBytes* bytes_;
  std::size_t stage_;
  Bytes transient_;  ///< the most that weight gradients need while they run
  std::int32_t waiting_ = 0;
  Bytes operands_;  ///< of those that wait
};

}  // namespace slimpack
