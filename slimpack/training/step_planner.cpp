#include "slimpack/training/step_planner.h"

#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/job/configured_job.h"

namespace slimpack {

StepPlanner::StepPlanner(const RunConfig& config, Costs cost, StageLayout layout,
                         SearchOptions search, std::function<void()> progress)
    : config_(config),
      cost_(std::move(cost)),
      layout_(std::move(layout)),
      search_(std::move(search)),
      progress_(std::move(progress)) {}

PlanLimits StepPlanner::limits() const {
  return limits_of(configured_job(config_, cost_, layout_), configured_choices(config_, cost_));
}

Costs StepPlanner::cost_of(double target_share) const {
  Costs cost = cost_;
  cost.ends.target_share = target_share;
  return cost;
}

RunnablePlan StepPlanner::plan(const SequenceLengths& lengths, double target_share,
                               PlannerKind planner, const RankSpeeds& speeds) const {
  Choices choices = configured_choices(config_, cost_);
  choices.planner = planner;
  choices.search = search_;
  return checked(lengths, cost_of(target_share), choices, speeds);
}

RunnablePlan StepPlanner::plan_evaluation(const SequenceLengths& lengths) const {
  Choices choices = configured_choices(config_, cost_);
  choices.backward = BackwardKind::kWhole;
  choices.solver = SolverKind::kFluid;
  choices.time_budget = Nanos(0);
  return checked(lengths, cost_, choices, {});
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

RunnablePlan StepPlanner::checked(const SequenceLengths& lengths, const Costs& cost,
                                  const Choices& choices, const RankSpeeds& speeds) const {
  Job job = configured_job(config_, cost, layout_);
  if (!speeds.empty()) job.speed = speeds;
  PlanOutcome outcome = plan_step({job, lengths, choices, cost}, progress_);
  if (outcome.does_not_fit) throw refused(config_, *outcome.does_not_fit);
  RunnablePlan planned = *std::move(outcome.step);
  require_valid_plan(planned.plan, "planner");
  const auto errors = check_lowered(planned.plan, planned.lowered);
  SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
  return planned;
}

}  // namespace slimpack
