// Memory guard: which forwards a stage may start so that its cap holds in every run of its orders
// and so that it can always finish.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/activation_ledger.h"

namespace slimpack {

/// Running maximum of forwards_needed: the forwards that have run before a backward does.
[[nodiscard]] std::vector<std::int32_t> running_needs(const PackPlan& packs);

/// One stage of a pipeline. Its bytes depend only on how many forwards (f) and backwards (b) it has
/// started, so a run is a walk from (0, 0) to (all, all), and a forward is safe when it fits and
/// when every backward that it enables fits after it.
class MemoryGuard {
 public:
  /// `needed`: running_needs of the packs.
  MemoryGuard(const RowFlow& flow, const TaskBytes& bytes, StageId stage, int stages,
              const std::vector<std::int32_t>& needed, int slots);

  /// The least cap that lets the stage finish.
  [[nodiscard]] Bytes least_cap() const;

  /// Inputs that may be waiting before the first action.
  [[nodiscard]] Bytes before_start() const { return Bytes(waiting_forwards(0)); }

  /// Highest bytes in any timing after f forwards and b backwards, until the next action starts;
  /// while the next forward runs; while the next backward runs. Operands of weight gradients that
  /// wait are not counted. A stage with fewer packs than f or b has run them all.
  [[nodiscard]] Bytes level(std::int32_t f, std::int32_t b) const;
  [[nodiscard]] Bytes level_of_forward(std::int32_t f, std::int32_t b) const;
  [[nodiscard]] Bytes level_of_backward(std::int32_t f, std::int32_t b) const;

  /// Where a walk is.
  class Walk {
   public:
    /// Keeps a reference.
    explicit Walk(const MemoryGuard& guard) : guard_(&guard) {}

    /// Highest bytes from starting forward f with b backwards started until the stage has run every
    /// backward that the first f + 1 forwards enable; 0 for a forward that the stage does not have.
    /// REQUIRES: b enabled by f (of those that the stage has); neither f nor b less than in the
    /// calls before. Cost: amortised O(slots).
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
  /// Stores, transients and inputs of backward b, less the forwards' stores, when the backwards
  /// before `enabled` can be waiting.
  [[nodiscard]] std::int64_t backward_level(std::int32_t b, std::int32_t enabled) const;

  std::int32_t slots_;
  std::int32_t forwards_;
  std::int32_t backwards_;
  Inputs forward_inputs_;
  Inputs backward_inputs_;
  std::vector<std::int64_t> forward_stores_;  ///< by f: what the first f forwards opened
  std::vector<std::int64_t> forward_transient_;
  std::vector<std::int64_t> backward_stores_;  ///< by b: opened less closed by the first b
  std::vector<std::int64_t> backward_peak_;    ///< by b: the same while b runs
  std::vector<std::int64_t> backward_full_;    ///< by b: backward_level with all others waiting
  std::vector<std::int32_t> enabled_;          ///< by f: backwards that f forwards enable
};

/// One guard for each stage.
[[nodiscard]] std::vector<MemoryGuard> memory_guards(const PackPlan& packs, const TaskBytes& bytes,
                                                     const std::vector<std::int32_t>& needed,
                                                     int slots);

}  // namespace slimpack
