#include "slimpack/job/step_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/job/configured_merging.h"
#include "slimpack/job/configured_model.h"

namespace slimpack {
namespace {

StepPlanning planning_of(const RunConfig& config, PlannableModel model, std::string_view origin) {
  Costs cost = required_cost(config, model.shape, origin);
  Choices choices = configured_choices(config, cost);
  return {config, std::move(model), std::move(cost), std::move(choices)};
}

}  // namespace

StageLayout StepPlanning::layout_for(const SequenceLengths& lengths) const {
  const ParallelConfig& p = config.parallel;
  StageLayout usual = chosen_layout(config, cost, lengths, choices);
  if (!abilities(cost).leaves_forwards) return usual;
  StageLayout light = balanced_layout(cost, lengths, p.pp, usual.placement.stages_per_rank(), false,
                                      LastStage::kBackwardAlone);
  if (light == usual) return usual;
  const auto step = [&](const StageLayout& tried) {
    return plan_step({configured_job(config, cost, tried), lengths, choices, cost}).step;
  };
  const auto with_usual = step(usual), with_light = step(light);
  const bool better = with_light && (!with_usual || with_light->prediction.makespan <
                                                        with_usual->prediction.makespan);
  return better ? light : usual;
}

Job StepPlanning::job(const SequenceLengths& lengths) const {
  return configured_job(config, cost,
                        layout ? *layout : chosen_layout(config, cost, lengths, choices));
}

std::vector<Job> StepPlanning::jobs_to_try(const SequenceLengths& lengths) const {
  if (layout) return {job(lengths)};
  std::vector<Job> jobs;
  for (const StageLayout& tried : layouts_to_try(config, cost, lengths))
    if (jobs.empty() || states_fit(config, cost, tried))
      jobs.push_back(configured_job(config, cost, tried));
  return jobs;
}

RatedPlan StepPlanning::plan(const SequenceLengths& lengths,
                             const std::function<void()>& progress) const {
  PlanOutcome outcome = plan_step({job(lengths), lengths, choices, cost}, progress);
  if (outcome.does_not_fit) throw refused(config, *outcome.does_not_fit);
  return std::move(*outcome.step);
}

PlanLimits StepPlanning::limits_for(const StageLayout& planned) const {
  return limits_of(configured_job(config, cost, planned), choices);
}

StepPlanning step_planning(const RunConfig& config, std::string_view origin) {
  std::optional<PlannableModel> counted = counted_model(config);
  return planning_of(config, counted ? std::move(*counted) : planned_model(config), origin);
}

StepPlanning step_planning(const RunConfig& config, std::string_view config_json,
                           std::string_view origin) {
  std::optional<PlannableModel> counted = counted_model(config, config_json);
  return planning_of(config, counted ? std::move(*counted) : planned_model(config, config_json),
                     origin);
}

namespace {

FitJob wished_job(const RunConfig& config, const Costs& cost) {
  return {.grid = config.parallel,
          .choices = {.planner = config.plan.planner,
                      .granularity = config.plan.granularity,
                      .most_merged = config.plan.most_merged.value_or(
                          std::max(kUsualMerging, configured_merging(config, cost))),
                      .solver = config.plan.solver,
                      .cuts = config.plan.cuts,
                      .recompute = allowed_recomputations(config, cost),
                      .mixed_recompute = !config.plan.recompute},
          .memory_cap = config.plan.memory_cap};
}

}  // namespace

FitQuestion configured_fit(const StepPlanning& planning) {
  const RunConfig& config = planning.config;
  FitQuestion question;
  question.cost = [config, shape = planning.model.shape](const ParallelGrid& grid) {
    RunConfig changed = config;
    static_cast<ParallelGrid&>(changed.parallel) = grid;
    return required_cost(changed, shape, "the changed job");
  };
  question.job = wished_job(config, planning.cost);
  question.most_tp = config.cost.file.empty() && config.hardware ? config.hardware->ranks_per_node
                                                                 : config.parallel.tp;
  question.speed = config.parallel.speed;
  question.context = config.data.context;
  return question;
}

std::string fixed_tp_text(const RunConfig& config) {
  if (config.cost.file.empty()) return "";
  return fmt::format("{}: measured with tp {}, so tp is not changed", config.cost.file.string(),
                     config.parallel.tp);
}

}  // namespace slimpack
