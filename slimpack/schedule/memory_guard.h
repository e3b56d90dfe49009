// Memory guard: tells which forwards a stage may start, so that its cap holds in every run of its
// orders and the stage can always finish.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/activation_ledger.h"

namespace slimpack {

/// By backward: the forwards that have run before it, the running maximum of forwards_needed.
[[nodiscard]] std::vector<std::int32_t> running_needs(const PackPlan& packs);

/// One stage of a pipeline. Its bytes depend only on how many forwards (f) and backwards (b) it has
/// started, so a run is a walk from (0, 0) to (all, all). A forward is safe if it fits and if every
/// backward that it enables fits after it.
class MemoryGuard {
 public:
  /// `needed`: running_needs of the packs.
  MemoryGuard(const RowFlow& flow, const TaskBytes& bytes, StageId stage, int stages,
              const std::vector<std::int32_t>& needed, int slots);

  /// The least cap that lets the stage finish.
  [[nodiscard]] Bytes least_cap() const;

  /// Inputs that may be waiting before the first action.
  [[nodiscard]] Bytes before_start() const { return Bytes(waiting_forwards(0)); }

  /// The highest bytes in any timing after f forwards and b backwards: until the next action starts
  /// (level), while the next forward runs, or while the next backward runs. Operands of waiting
  /// weight gradients are not counted. An f or b above the stage's packs means all of them.
  [[nodiscard]] Bytes level(std::int32_t f, std::int32_t b) const;
  [[nodiscard]] Bytes level_of_forward(std::int32_t f, std::int32_t b) const;
  [[nodiscard]] Bytes level_of_backward(std::int32_t f, std::int32_t b) const;

  /// A run of the stage, for calls with growing f and b.
  class Walk {
   public:
    /// Keeps a reference.
    explicit Walk(const MemoryGuard& guard) : guard_(&guard) {}

    /// The highest bytes from the start of forward f, after b backwards, until the stage has run
    /// every backward that the first f + 1 forwards enable. 0 if the stage has no forward f.
    /// REQUIRES: f forwards enable the b backwards (of those that the stage has); neither f nor b
    /// is less than in earlier calls. Cost: amortised O(slots).
    [[nodiscard]] Bytes peak_after_forward(std::int32_t f, std::int32_t b);

   private:
    [[nodiscard]] std::int64_t highest_backward(std::int32_t from, std::int32_t to);

    const MemoryGuard* guard_;
    std::vector<std::int32_t> falling_;  ///< window of backwards whose levels fall
    std::size_t falling_begin_ = 0;
    std::int32_t window_end_ = 0;
  };

 private:
  /// Bytes of inputs [from, to) of a pass.
  struct Inputs {
    std::vector<std::int64_t> before;  ///< prefix sums
    [[nodiscard]] std::int64_t sum(std::int32_t from, std::int32_t to) const {
      return to <= from
                 ? 0
                 : before[static_cast<std::size_t>(to)] - before[static_cast<std::size_t>(from)];
    }
  };

  static Inputs inputs_of(const std::vector<Bytes>& bytes, bool none);
  [[nodiscard]] std::int64_t waiting_forwards(std::int32_t f) const;
  /// The bytes of backward b without the forwards' stores: stores, transients and inputs. The
  /// inputs of backwards before `enabled` can be waiting.
  [[nodiscard]] std::int64_t backward_level(std::int32_t b, std::int32_t enabled) const;

  std::int32_t slots_;
  std::int32_t forwards_;
  std::int32_t backwards_;
  Inputs forward_inputs_;
  Inputs backward_inputs_;
  std::vector<std::int64_t> forward_stores_;  ///< by f: opened by the first f forwards
  std::vector<std::int64_t> forward_transient_;
  std::vector<std::int64_t> backward_stores_;  ///< by b: opened less closed by the first b
  std::vector<std::int64_t> backward_peak_;    ///< by b: backward_stores_ while backward b runs
  std::vector<std::int64_t> backward_full_;    ///< by b: backward_level with all backwards enabled
  std::vector<std::int32_t> enabled_;          ///< by f: backwards that f forwards enable
};

/// One guard for each stage.
[[nodiscard]] std::vector<MemoryGuard> memory_guards(const PackPlan& packs, const TaskBytes& bytes,
                                                     const std::vector<std::int32_t>& needed,
                                                     int slots);

}  // namespace slimpack
