// List scheduler: schedules one replica, or several that share packs, under any memory caps.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/folded_ranks.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// The rule by which a stage chooses among several possible actions.
struct ListPolicy {
  /// kForward or kBackward: which starts if both could. With several stages a rank kBackward means
  /// the pace of 1F1B.
  Pass first = Pass::kBackward;
  /// Backward packs from this one on are split if memory allows. Their weight gradients run when
  /// the stage would otherwise wait, or when memory is short.
  std::int32_t split_from = std::numeric_limits<std::int32_t>::max();
  /// The run ends without a result as soon as its makespan is sure to be longer than this.
  Nanos give_up_above{std::numeric_limits<std::int64_t>::max()};
  /// A run of at least this makespan leaves its memory empty, which saves time. With several
  /// replicas its memory may then exceed the caps.
  Nanos count_memory_below{std::numeric_limits<std::int64_t>::max()};
  /// E, H and G run, too: all ranks start them together once the last of them is ready. REQUIRES: a
  /// stage a rank; times that are not folded (spread_vocabulary.h).
  bool joint = false;
};

/// Modified 1F1B by list scheduling in simulated time (docs/planner.md). Whenever a stage is free,
/// it starts its next backward if that can start now; else its next forward if the stage's
/// activation bytes stay within the cap; else it waits. It starts no action whose output might find
/// a full channel, so no stage ever waits to send.
///
/// The cap holds in every run of the orders, whatever its timing. It covers the stores, each
/// action's transients and all inputs that can wait in the channels at the same moment.
///
/// An object holds what depends on the plan but not on the caps. Replicas that share merged packs
/// run one common order, so that no two wait for each other in a circle. Pack k has the same place
/// in the order of all replicas, takes as long as on the slowest, and starts when every replica has
/// the memory for it. A replica with fewer packs skips the missing ones.
///
/// A rank with several stages runs each pass in the rounds of FoldedOrder, so it still chooses
/// between one forward and one backward. It keeps to the pace of interleaved 1F1B: a backward first
/// if enough forwards are ahead, else a forward first. Stages here are then ranks (folded_ranks.h).
class ListScheduler {
 public:
  /// Keeps references to the replicas. REQUIRES: at least one replica, all with the same number of
  /// stages, of which each rank has equally many; a merged pack has the same index on all its
  /// replicas; with several stages a rank at least two slots, as a round is shorter than two for
  /// each rank: else all ranks might wait for a slot around the ring.
  explicit ListScheduler(std::span<const ReplicaPacks> replicas, int slots = kChannelSlots,
                         std::int32_t stages_per_rank = 1);
  ListScheduler(const ListScheduler&) = delete;
  ListScheduler& operator=(const ListScheduler&) = delete;

  /// By stage: the least cap under which run() finds orders, the largest over the replicas. With it
  /// every forward waits until the next backward needs it.
  [[nodiscard]] const std::vector<Bytes>& least_memory() const { return least_memory_; }

  struct Result {
    Schedule schedule;  ///< the common order
    /// By stage: the most that any replica holds in any timing of the common order. It equals
    /// schedule_memory for a single replica. For one of several, schedule_memory may be higher,
    /// because it does not know that the others hold the replica back. With several stages a rank
    /// it may be lower, too. Empty where the policy leaves it.
    std::vector<Bytes> memory;
    Nanos makespan;  ///< when the last action ends: as simulated, or a little later
  };
  /// `caps` by stage, empty = unlimited. nullopt if a cap is below least_memory (too small for this
  /// plan), or if the policy gives up. Cost: O(actions · stages + slices · stages).
  /// REQUIRES: policy.split_from splits no pack unless the times and bytes of split backwards
  /// exist.
  [[nodiscard]] std::optional<Result> run(const std::vector<Bytes>& caps,
                                          const ListPolicy& policy = {}) const;
  [[nodiscard]] std::int32_t backwards() const { return backwards_; }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(memory_.size()); }

 private:
  /// Folds ranks with several stages; the replicas as everything below takes them.
  [[nodiscard]] std::span<const ReplicaPacks> fold(std::span<const ReplicaPacks> replicas,
                                                   std::int32_t stages_per_rank);
  void set_needs(std::span<const ReplicaPacks> replicas);
  [[nodiscard]] ForwardNeeds needs_of(const PackPlan& packs) const;
  void set_memory(std::span<const ReplicaPacks> replicas, std::span<const ReplicaPacks> folded);
  [[nodiscard]] std::optional<Result> folded_run(const std::vector<Bytes>& caps,
                                                 const ListPolicy& policy) const;
  [[nodiscard]] std::vector<Bytes> memory_of(const Schedule& common) const;
  [[nodiscard]] std::optional<Result> run_with(
      const std::vector<std::vector<const StageMemory*>>& memory, const std::vector<Bytes>& caps,
      const ListPolicy& policy) const;

  /// Ranks with several stages as one stage each.
  struct Folded {
    FoldedOrders orders;
    FoldedMessages messages;
    std::vector<ReplicaPacks> replicas;
  };

  std::int32_t slots_;
  std::int32_t forwards_ = 0;             ///< packs
  std::int32_t backwards_ = 0;            ///< packs
  std::vector<std::int32_t> pack_needs_;  ///< by backward pack: forward packs before it
  std::optional<Folded> folded_;          ///< with several stages a rank
  std::optional<TaskTimes> slowest_;      ///< of several replicas
  const TaskTimes* times_;
  std::vector<std::int32_t> needed_;                            ///< the same by folded packs
  std::vector<std::vector<StageMemory>> memory_;                ///< [stage][replica]
  std::vector<std::vector<const StageMemory*>> all_memory_;     ///< the same
  std::vector<std::vector<const StageMemory*>> first_to_fill_;  ///< [stage]: who needs most
  std::vector<Bytes> least_memory_;
};

/// The part of a common order that a replica with these packs runs.
[[nodiscard]] Schedule own_order(const Schedule& common, const PackPlan& packs);

}  // namespace slimpack
