// List scheduler: list schedules of one replica, or of several that share packs, under several
// memory caps.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// What a stage does when it could do several things.
struct ListPolicy {
  Pass first = Pass::kBackward;  ///< kForward or kBackward, when both could start
  /// Backward packs from this one on are split where memory allows. What is put off runs when the
  /// stage would otherwise wait, or when memory asks for it.
  std::int32_t split_from = std::numeric_limits<std::int32_t>::max();
  /// The run ends without a result once its makespan is sure to be longer than this.
  Nanos give_up_above{std::numeric_limits<std::int64_t>::max()};
};

/// Modified 1F1B by list scheduling in simulated time (design §5): whenever a stage is free it
/// takes its next backward if that can start now, else its next forward if the stage's activation
/// bytes stay within the cap, else it waits. It starts nothing whose output might find a full
/// channel, so no stage ever waits to send.
///
/// The cap holds in every run of the orders, whatever its timing: it covers the stores, each
/// action's transients and all inputs that can be waiting in the channels at the same moment.
///
/// An object is what is worked out once for a plan, whatever the caps. Replicas that share merged
/// packs run one common order, so that no two wait for each other in a circle: pack k
/// stands at the same place of it on all of them, takes as long as on the slowest, and starts when
/// every replica has the memory for it. A replica with fewer packs leaves the missing ones out.
class ListScheduler {
 public:
  /// Keeps references to the times and bytes. REQUIRES: at least one replica, all with the same
  /// number of stages; a merged pack has the same index on all its replicas.
  explicit ListScheduler(std::span<const ReplicaPacks> replicas, int slots = kChannelSlots);

  /// By stage: the least cap with which there are orders, reached when every forward waits until
  /// the next backward needs it; of the replica that needs most.
  [[nodiscard]] const std::vector<Bytes>& least_memory() const { return least_memory_; }

  struct Result {
    Schedule schedule;  ///< the common order
    /// By stage: the most that any replica holds in any timing of the common order. Of a single
    /// replica, as schedule_memory, which may say more of one that others hold back.
    std::vector<Bytes> memory;
    Nanos makespan;  ///< when the last action ends: as simulated, or a little later
  };
  /// `caps` by stage, empty = unlimited. No result when a cap is below least_memory (too small for
  /// this plan: a result, not an error), and when the policy gives up.
  /// Cost: O(actions · stages + slices · stages).
  /// REQUIRES: nothing is split unless the times and bytes know how.
  [[nodiscard]] std::optional<Result> run(const std::vector<Bytes>& caps,
                                          const ListPolicy& policy = {}) const;
  [[nodiscard]] std::int32_t backwards() const { return backwards_; }
  [[nodiscard]] std::int32_t stages() const { return static_cast<std::int32_t>(guards_.size()); }

 private:
  std::int32_t slots_;
  std::int32_t forwards_ = 0;
  std::int32_t backwards_ = 0;
  std::optional<TaskTimes> slowest_;  ///< of several replicas
  const TaskTimes* times_;
  std::vector<std::int32_t> needed_;              ///< by backward: forwards that have run before
  std::vector<std::vector<MemoryGuard>> guards_;  ///< [stage][replica]
  std::vector<const TaskBytes*> bytes_;           ///< by replica
  std::vector<Bytes> least_memory_;
};

/// The part of a common order that a replica with these packs runs.
[[nodiscard]] Schedule own_order(const Schedule& common, const PackPlan& packs);

}  // namespace slimpack
