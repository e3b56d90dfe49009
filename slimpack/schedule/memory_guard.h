// Memory guard: tells which forwards a stage may start, so that its cap holds in every run of its
// orders and the stage can always finish.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/folded_ranks.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// By backward: the forwards that have run before it, the running maximum of forwards_needed.
[[nodiscard]] std::vector<std::int32_t> running_needs(const PackPlan& packs);

/// Tells whether a pack of a stage has an input that can wait for it.
struct HasInput {
  bool any = true;
  const std::vector<FoldedLink>* sources = nullptr;  ///< of a folded rank; else null

  [[nodiscard]] bool operator()(std::size_t pack) const {
    return any && (sources == nullptr || (*sources)[pack].rank >= 0);
  }
};

/// One stage of a pipeline, or a folded rank. Its bytes depend only on how many forwards (f) and
/// backwards (b) it has started, so a run is a walk from (0, 0) to (all, all). A forward is safe if
/// it fits and if every backward that it enables fits after it.
class MemoryGuard {
 public:
  struct Inputs {
    HasInput forward, backward;
  };
  /// `slots`: inputs of each pass that can wait.
  MemoryGuard(const RowFlow& flow, const TaskBytes& bytes, StageId stage, const Inputs& inputs,
              const ForwardNeeds& needs, int slots);

  /// The least cap that lets the stage finish.
  [[nodiscard]] Bytes least_cap() const { return least_cap_; }

  /// Inputs that may be waiting before the first action.
  [[nodiscard]] Bytes before_start() const { return Bytes(held_.front()); }

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
    /// is less than in earlier calls. Cost: amortised O(slots) additions.
    [[nodiscard]] Bytes peak_after_forward(std::int32_t f, std::int32_t b);

   private:
    [[nodiscard]] std::int64_t highest_backward(std::int32_t from, std::int32_t to,
                                                std::int32_t arrived);

    const MemoryGuard* guard_;
    std::vector<std::int32_t> falling_;  ///< window of backwards whose levels fall
    std::size_t falling_begin_ = 0;
    std::int32_t window_end_ = 0;
  };

 private:
  /// Bytes of inputs [from, to) of a pass.
  struct InputBytes {
    std::vector<std::int64_t> before;  ///< prefix sums
    [[nodiscard]] std::int64_t sum(std::int32_t from, std::int32_t to) const {
      return to <= from
                 ? 0
                 : before[static_cast<std::size_t>(to)] - before[static_cast<std::size_t>(from)];
    }
  };

  static InputBytes input_bytes(const std::vector<Bytes>& bytes, const HasInput& has_input);
  [[nodiscard]] std::int32_t arrived(std::size_t f) const {
    return arrived_.empty() ? enabled_[f] : arrived_[f];
  }
  /// Inputs of backwards that can be waiting, from b on, when f forwards have run.
  [[nodiscard]] std::int64_t waiting_backwards(std::int32_t f, std::int32_t b) const {
    return backward_inputs_.sum(b, std::min(b + slots_, arrived(static_cast<std::size_t>(f))));
  }
  void fill_forwards(const StageStores& stores, const InputBytes& inputs);
  void fill_backwards(const StageStores& stores, const std::vector<Bytes>& transients);
  [[nodiscard]] std::vector<std::int32_t> by_forwards(const std::vector<std::int32_t>& needs) const;
  [[nodiscard]] Bytes least_cap_for(const std::vector<std::int32_t>& fitting) const;

  std::int32_t slots_;
  std::int32_t forwards_;
  std::int32_t backwards_;
  InputBytes backward_inputs_;
  /// By f: stores that the first f forwards open, and the inputs that can wait after them.
  std::vector<std::int64_t> held_;
  std::vector<std::int64_t> forward_transient_;
  /// By b. Full and open are the higher of stores before and peak during backward b, with inputs.
  struct Backwards {
    std::vector<std::int64_t> stores;  ///< opened less closed by the first b
    std::vector<std::int64_t> peak;    ///< stores while backward b runs
    std::vector<std::int64_t> full;    ///< with inputs in all slots
    /// Less the inputs of the backwards before b, for windows that end within the slots.
    std::vector<std::int64_t> open;
  };
  Backwards backward_;
  std::vector<std::int32_t> enabled_;  ///< by f: backwards that f forwards enable
  /// By f: backwards up to the last whose input can wait; empty: as enabled_.
  std::vector<std::int32_t> arrived_;
  Bytes least_cap_;
};

/// The links of folded ranks in both directions.
struct FoldedMessages {
  FoldedLinks forward, backward;
  /// Inputs of a pass that can wait at a rank: in each stage's slots, and over a round in which the
  /// first stage, or backward the last, has none.
  std::int32_t waiting = 0;
};

/// One guard for each stage, or for each folded rank.
[[nodiscard]] std::vector<MemoryGuard> memory_guards(const PackPlan& packs, const TaskBytes& bytes,
                                                     const ForwardNeeds& needs, int slots,
                                                     const FoldedMessages* folded = nullptr);

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
