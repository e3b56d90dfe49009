// Plans the steps and evaluations of a run, each checked by what shares no code with its maker.
#pragma once

#include <string_view>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Thread-safe. Calls throw InvalidInput when nothing fits.
class StepPlanner {
 public:
  StepPlanner(const RunConfig& config, Costs cost, StageLayout layout);

  [[nodiscard]] const Costs& cost() const { return cost_; }
  [[nodiscard]] const StageLayout& layout() const { return job_.layout; }

  [[nodiscard]] RatedPlan plan(const SequenceLengths& lengths, PlannerKind planner) const;
  /// Backward never runs: what is found quickly serves as well as the best plan.
  [[nodiscard]] RatedPlan plan_evaluation(const SequenceLengths& lengths) const;

  /// Throws InvalidInput naming `origin` unless a plan that another process made is one of these
  /// lengths for the stages and replicas of this run.
  void require_of_this_run(const StepPlan& plan, const SequenceLengths& lengths,
                           std::string_view origin) const;

 private:
  [[nodiscard]] RatedPlan checked(const SequenceLengths& lengths, const Choices& choices) const;

  RunConfig config_;
  Costs cost_;
  Job job_;
  Choices choices_;
};

}  // namespace slimpack
