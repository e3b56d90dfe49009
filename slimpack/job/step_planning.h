// Step planning: everything that planning a run's steps takes, read once for all steps, and the
// question that a run puts to the fit advice.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/fit_advice.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The parts of planning that do not change from step to step.
struct StepPlanning {
  RunConfig config;
  PlannableModel model;
  Costs cost;
  Choices choices;
  /// The layout of every step. Without it each step has the chosen_layout for its own lengths.
  std::optional<StageLayout> layout = {};

  /// The layers of each stage that suit a run of steps like one of these lengths: chosen_layout.
  /// Under autograd it depends on the plan what the last stage runs forward, so two are planned and
  /// the shorter step decides.
  [[nodiscard]] StageLayout layout_for(const SequenceLengths& lengths) const;
  [[nodiscard]] Job job(const SequenceLengths& lengths) const;
  /// The step's job once for every layout of layouts_to_try.
  [[nodiscard]] std::vector<Job> jobs_to_try(const SequenceLengths& lengths) const;
  /// Plans the step with plan_step. Throws JobDoesNotFit where the job's memory is too small for
  /// any plan.
  [[nodiscard]] RatedPlan plan(const SequenceLengths& lengths,
                               const std::function<void()>& progress = nullptr) const;
  /// The limits that plans for this layout keep to; they are written to the plans' files.
  [[nodiscard]] PlanLimits limits_for(const StageLayout& planned) const;
};

/// Reads the model and the costs that the configuration names. Throws InvalidInput as planned_model
/// and required_cost; `origin` is the configuration's name in messages.
[[nodiscard]] StepPlanning step_planning(const RunConfig& config, std::string_view origin);

/// Reads the costs that the configuration names, for a model whose config.json has this text. The
/// text's name in messages is config.model.config. Throws as the function above.
[[nodiscard]] StepPlanning step_planning(const RunConfig& config, std::string_view config_json,
                                         std::string_view origin);

/// The question but for the step's lengths. tp may grow up to a node, but stays where costs were
/// measured, because they hold for one tp.
[[nodiscard]] FitQuestion configured_fit(const StepPlanning& planning);

/// One line that says why tp stays; empty where it need not.
[[nodiscard]] std::string fixed_tp_text(const RunConfig& config);

}  // namespace slimpack
