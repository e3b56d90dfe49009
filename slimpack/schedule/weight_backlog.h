// Weight backlog: the put-off weight gradients of a stage, and their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// One stage of one replica. Weight gradients wait for no other stage, so a stage that lacks memory
/// can always run those that it has put off. An action only has to fit now; later actions need no
/// guarantee.
class WeightBacklog {
 public:
  /// Keeps references.
  WeightBacklog(const MemoryGuard& guard, const TaskBytes& bytes, StageId stage);

  /// The highest bytes in any timing from the start of the action until the next forward or
  /// backward starts. Before the action the stage has started f forwards and b backwards, so the
  /// action is forward f, or backward b, whole or split.
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
  Bytes transient_;  ///< the largest transient of any weight gradients
  std::int32_t waiting_ = 0;
  Bytes operands_;  ///< of the waiting weight gradients
};

/// The memory of one replica on a stage before anything has run.
struct StageMemory {
  /// Keeps references to the bytes.
  StageMemory(MemoryGuard of, const TaskBytes& bytes, StageId stage)
      : guard(std::make_unique<MemoryGuard>(std::move(of))), backlog(*guard, bytes, stage) {}

  /// The highest bytes that any timing of the order reaches. Packs that the replica does not have
  /// hold nothing.
  [[nodiscard]] Bytes highest_of(std::span<const Action> order) const;

  std::unique_ptr<const MemoryGuard> guard;  ///< stays where it is, for the backlog
  WeightBacklog backlog;
};

}  // namespace slimpack
