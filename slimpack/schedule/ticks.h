// Ticks: the common clock of a step's orders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// In a tick a rank runs a forward at most and then a backward at most. The rows that it sends are
/// used in the next tick (SlimPipe's ticks, arXiv:2504.14519). Each action has the first tick that
/// its rank's order, its input, a free slot for its output and its other replicas allow.
class Ticks {
 public:
  /// Half a tick: of tick t, forwards have 2t, backwards 2t + 1.
  using Half = std::int32_t;

  /// Keeps references. REQUIRES: check_plan is empty, and check_step_schedules too but for
  /// exchanges and for E, H and G, which have no ticks. Cost: O(actions · ranks).
  Ticks(const StepPlan& plan, std::span<const Schedule> schedules, int slots);

  /// REQUIRES: F, B or I.
  [[nodiscard]] Half of(std::size_t replica, const Action& action) const;

 private:
  static constexpr Half kUnknown = -1;
  struct RankRun {
    std::size_t next = 0;
    Half last = -1;  ///< of the action before
  };

  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }
  RankRun& run(std::size_t r, std::size_t p) { return runs_[r * per_replica_ + p]; }
  [[nodiscard]] std::vector<Half>& halves(std::size_t r, std::size_t s, Pass pass) {
    return of_stage_[r * stages_ + s][pass == Pass::kForward ? 0 : 1];
  }
  /// The first half where an action may stand by itself; kUnknown while that is not known.
  Half least(std::size_t r, std::size_t p, const Action& action);
  /// The half of a tick in which all replicas of a pack run an action together.
  Half common(std::size_t r, std::size_t p, const Action& action);
  bool step(std::size_t r, std::size_t p);

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  std::size_t slots_;
  std::size_t per_replica_;  ///< ranks of a pipeline
  std::size_t stages_;
  std::vector<RankRun> runs_;                               ///< [replica · per_replica + rank]
  std::vector<std::array<std::vector<Half>, 2>> of_stage_;  ///< [replica · stages + stage][way]
};

}  // namespace slimpack
