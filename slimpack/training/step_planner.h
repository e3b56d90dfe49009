// Plans the steps and evaluations of a run. Checkers that share no code with the planner check each
// plan.
#pragma once

#include <functional>
#include <string_view>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/speed_tracker.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Thread-safe. Calls throw JobDoesNotFit if no plan fits. A process that receives its plans from
/// another one does not plan, and so needs no memory cap.
class StepPlanner {
 public:
  /// `progress`, if set, is called after each candidate of a plan. An exception of `progress` ends
  /// the planning and is thrown.
  StepPlanner(const RunConfig& config, Costs cost, StageLayout layout, SearchOptions search = {},
              std::function<void()> progress = nullptr);

  [[nodiscard]] const Costs& cost() const { return cost_; }
  /// cost() of steps of whose tokens this share are targets.
  [[nodiscard]] Costs cost_of(double target_share) const;
  [[nodiscard]] const StageLayout& layout() const { return layout_; }
  [[nodiscard]] PlanLimits limits() const;  ///< that plans keep to

  /// `speeds`: of the ranks; empty = as the configuration has them.
  [[nodiscard]] RunnablePlan plan(const SequenceLengths& lengths, double target_share,
                                  PlannerKind planner, const RankSpeeds& speeds = {}) const;
  /// Only the forward passes of this plan run, so it takes a quick plan instead of the best.
  [[nodiscard]] RunnablePlan plan_evaluation(const SequenceLengths& lengths) const;

  /// Checks a plan of another process: throws InvalidInput naming `origin` unless it has these
  /// lengths and this run's stages and replicas.
  void require_of_this_run(const StepPlan& plan, const SequenceLengths& lengths,
                           std::string_view origin) const;

 private:
  [[nodiscard]] RunnablePlan checked(const SequenceLengths& lengths, const Costs& cost,
                                     const Choices& choices, const RankSpeeds& speeds) const;

  RunConfig config_;
  Costs cost_;
  StageLayout layout_;
  SearchOptions search_;
  std::function<void()> progress_;
};

}  // namespace slimpack
