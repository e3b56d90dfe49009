// Simulator: the makespan and the memory of a plan under a schedule, before anything runs.
#pragma once

#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/step_graph.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

struct SimulationOptions {
  int slots = kChannelSlots;
  bool timeline = true;  ///< false: rate only, spans and memory samples stay empty
};

struct SimulationResult {
  Timeline timeline;  ///< origin "predicted"; peak_activation always filled
  Nanos makespan;
  double bubble_ratio = 0;  ///< 1 − busy / (ranks × makespan)
  /// By rank: rank p of replica r's pipeline is rank r · (ranks of a pipeline) + p, here and in the
  /// timeline.
  std::vector<Nanos> busy;
  std::vector<Bytes> peak_activation;  ///< by rank, transients and waiting inputs included
};

/// Runs the actions in the order of the schedules. A rank computes one action at a time. A finished
/// action's output leaves at once if its channel has a free slot; else the rank waits. It arrives
/// after the pack's transfer time. A merged MicroPack starts on a stage when all its replicas are
/// ready there, and takes as long as on the slowest; E, H and G when all ranks of the replica are.
/// A rank's gradients are reduced when all replicas have run its stages. Optimizers start when all
/// ranks are reduced. REQUIRES: at least one replica and a schedule for each, all with the same
/// ranks and stages; check_plan and check_step are empty. Cost: O(actions · log(actions) +
/// stages · slices).
[[nodiscard]] SimulationResult simulate(std::span<const ReplicaPacks> replicas,
                                        std::span<const Schedule> orders,
                                        const SimulationOptions& options = {});

/// The makespan of `simulate`. Bytes are not needed, so it takes a part of the time.
/// Cost: O(actions).
[[nodiscard]] Nanos simulated_makespan(std::span<const ReplicaPacks> replicas,
                                       std::span<const Schedule> orders, int slots = kChannelSlots);

/// A makespan_lower_bound until the last action ends, without reduction and step end. 0 without
/// packs.
[[nodiscard]] Nanos actions_lower_bound(const PackPlan& packs, const TaskTimes& times,
                                        const StagePlacement& placement = {});

/// No schedule of these packs is faster. The bound is the longest step end of any rank, which
/// starts when every rank is reduced, plus the largest of these:
///  - for each rank r, whose first stage is r: the cheapest way of any forward pack through the
///    stages before r, then the work of all its stages, then its reduction;
///  - for each rank: the work of all its stages with E, H and G, then its reduction;
///  - for each rank r: the same way and work, but without weight gradients that can be put off,
///    then the cheapest way of any backward pack from stage r to the first stage, then the first
///    rank's reduction;
///  - for each backward pack b: the forwards that b needs on the first stage, the way of their last
///    one through the other stages, the way of b back to the first stage, then its reduction.
/// Cost: O(stages · packs).
[[nodiscard]] Nanos makespan_lower_bound(const PackPlan& packs, const TaskTimes& times,
                                         const StagePlacement& placement = {});

/// No step in which a replica has these orders and times is shorter: they run as simulated, but
/// channels are never full and no other replica is waited for. With reduction and optimizer. Knows
/// no bytes. REQUIRES: check_schedule is empty. Cost: O(actions).
[[nodiscard]] Nanos order_bound(const Schedule& schedule, const TaskTimes& times);

}  // namespace slimpack
