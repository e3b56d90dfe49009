#include "slimpack/training/step_planner.h"

#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/job/configured_request.h"

namespace slimpack {

StepPlanner::StepPlanner(const RunConfig& config, CostModel cost, StageLayout layout)
    : config_(config), cost_(std::move(cost)), layout_(std::move(layout)) {}

PlannedStep StepPlanner::plan(SequenceLengths lengths, PlannerKind planner) const {
  PlanRequest request = configured_request(config_, cost_, std::move(lengths), layout_);
  request.planner = planner;
  return checked(request);
}

PlannedStep StepPlanner::plan_evaluation(SequenceLengths lengths) const {
  PlanRequest request = configured_request(config_, cost_, std::move(lengths), layout_);
  request.backward = BackwardKind::kWhole;
  request.solver = SolverKind::kFluid;
  request.time_budget = Nanos(0);
  return checked(request);
}

void StepPlanner::require_of_this_run(const StepPlan& plan, const SequenceLengths& lengths,
                                      std::string_view origin) const {
  const char* const wrong = plan.lengths != lengths  ? "other sequences"
                            : plan.layout != layout_ ? "other stages"
                            : plan.replicas.size() != static_cast<std::size_t>(config_.parallel.dp)
                                ? "another number of replicas"
                                : nullptr;
  if (wrong != nullptr)
    invalid_input(
        "{}: it is one of {}; all processes need the same configuration, dataset and version of "
        "SlimPack",
        origin, wrong);
}

PlannedStep StepPlanner::checked(const PlanRequest& request) const {
  PlanOutcome outcome = plan_step(request, cost_);
  if (outcome.does_not_fit) throw refused(config_, *outcome.does_not_fit);
  PlannedStep planned = *std::move(outcome.step);
  require_valid_plan(planned.plan, "planner");
  const auto errors = check_step_schedules(planned.plan, planned.schedules);
  SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
  return planned;
}

}  // namespace slimpack
