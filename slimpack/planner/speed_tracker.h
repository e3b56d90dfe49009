// Speed tracker: what measured steps say of the speeds of ranks, so that plans can follow them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// By replica and rank of its pipeline; 1 = as the costs say.
using RankSpeeds = std::vector<std::vector<double>>;

/// Job::speed, [replica][stage], from speeds by rank. Rank (replica · pp + stage) · tp + t is one
/// of the tp tensor-parallel ranks of a stage; the slowest of these sets the stage's speed. Ranks
/// beyond the last entry have speed 1. Empty = all 1.
[[nodiscard]] std::vector<std::vector<double>> stage_speeds(std::span<const double> by_rank,
                                                            const ParallelGrid& grid);

/// The speeds at which the ranks ran a step: the median, over what a rank did for MicroPacks of its
/// own, of the time at speed 1 ÷ the measured time; of a stage's tensor-parallel ranks the slowest.
/// Merged MicroPacks do not count, since there a rank's time includes waits for others. A rank
/// without any other keeps the speed that the plan gave it.
/// Cost: that of costing the plan's tasks, and O(spans · log(spans)).
[[nodiscard]] RankSpeeds measured_speeds(const RatedPlan& step, const Costs& cost,
                                         const Timeline& measured);

/// Follows speeds with care: a rank's speed is the median over the last steps, stays within a
/// factor of four of the costs, and is believed anew only when some rank is a tenth or more away
/// from its believed speed. So noise changes no plan, and a rank that becomes slower gets less work
/// within a few steps.
class SpeedTracker {
 public:
  /// `speeds`: believed at first; empty = all 1.
  explicit SpeedTracker(RankSpeeds speeds = {}) : believed_(std::move(speeds)) {}

  /// Adds a step. Returns whether other speeds are believed now.
  bool add(RankSpeeds measured);

  [[nodiscard]] const RankSpeeds& speeds() const { return believed_; }

 private:
  [[nodiscard]] RankSpeeds medians() const;

  std::deque<RankSpeeds> last_;
  RankSpeeds believed_;
};

/// Tells once that predictions have drifted away from what is measured.
class DriftWatch {
 public:
  /// Adds a step: its makespan as predicted and measured, and the speeds that its plan assumed
  /// (empty = all 1). `measured` finds those at which the ranks ran; it is called only for steps
  /// that are off, since it costs the plan's tasks anew. One line with the cause when the last
  /// steps were 20% or more longer or shorter than predicted, for the first time; else nullopt.
  [[nodiscard]] std::optional<std::string> add(Nanos predicted, Nanos makespan,
                                               const RankSpeeds& assumed,
                                               const std::function<RankSpeeds()>& measured);

 private:
  std::deque<double> last_;             ///< measured ÷ predicted
  std::deque<RankSpeeds> last_speeds_;  ///< measured ÷ assumed, of steps that were off
  bool told_ = false;
};

}  // namespace slimpack
