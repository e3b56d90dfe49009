// Step planning: everything that planning a run's steps takes, read once for all steps.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// What does not change from step to step.
struct StepPlanning {
  RunConfig config;
  PlannableModel model;
  Costs cost;
  Choices choices;
  /// Of every step; none: chosen_layout for its own lengths.
  std::optional<StageLayout> layout = {};

  /// The layers of each stage that suit a run of steps like one of these lengths: chosen_layout.
  /// Under autograd it depends on the plan what the last stage runs forward, so two are planned and
  /// the shorter step decides.
  [[nodiscard]] StageLayout layout_for(const SequenceLengths& lengths) const;
  [[nodiscard]] Job job(const SequenceLengths& lengths) const;
  /// The same with every layout of layouts_to_try.
  [[nodiscard]] std::vector<Job> jobs_to_try(const SequenceLengths& lengths) const;
  /// As plan_step. Throws JobDoesNotFit where the job's memory is too small for any plan.
  [[nodiscard]] RatedPlan plan(const SequenceLengths& lengths,
                               const std::function<void()>& progress = nullptr) const;
  /// What plans for this layout keep to, for their files.
  [[nodiscard]] PlanLimits limits_for(const StageLayout& planned) const;
};

/// Reads the model and the costs that the configuration names. Throws InvalidInput as planned_model
/// and required_cost; `origin` is the configuration's name in messages.
[[nodiscard]] StepPlanning step_planning(const RunConfig& config, std::string_view origin);

/// The same for a model that is given as the text of its config.json; config.model.config is its
/// name in messages.
[[nodiscard]] StepPlanning step_planning(const RunConfig& config, std::string_view config_json,
                                         std::string_view origin);

}  // namespace slimpack
