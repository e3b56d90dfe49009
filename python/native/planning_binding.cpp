#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/job/configured_sequences.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/job/sweep_axes.h"
#include "slimpack/job/sweep_jobs.h"
#include "slimpack/planner/layout_search.h"
#include "slimpack/report/comparison.h"
#include "slimpack/report/fit_report.h"
#include "slimpack/report/layout_report.h"
#include "slimpack/report/sweep_report.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

constexpr Nanos kBetweenCalls(50'000'000);  // of Python, while a search runs

/// Calls Python now and then: for Ctrl-C, and to tell how many candidates were looked at. Runs
/// without the interpreter's lock.
class PythonProgress {
 public:
  explicit PythonProgress(nb::object callback) : callback_(std::move(callback)) {}

  void operator()() {
    ++done_;
    const Nanos now = monotonic_now();
    if (now - last_ < kBetweenCalls) return;
    last_ = now;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback_.is_none()) callback_(done_);
  }

 private:
  nb::object callback_;
  std::int64_t done_ = 0;
  Nanos last_ = monotonic_now();
};

StepPlanning planning_of(const std::string& toml, const std::string& origin,
                         const std::vector<std::string>& overrides, const std::string& folder,
                         const std::optional<std::string>& model_json) {
  const RunConfig config = run_config_from_toml(toml, origin, overrides, folder);
  return model_json ? step_planning(config, *model_json, origin) : step_planning(config, origin);
}

/// Where a Planning comes from, for sweeps that read it anew with other settings.
struct PlanningSource {
  std::string toml, origin;
  std::vector<std::string> overrides;
  std::string folder;
  std::optional<std::string> model_json;
};

StepPlanning planning_with(const PlanningSource& from, const RunConfig& config) {
  return from.model_json ? step_planning(config, *from.model_json, from.origin)
                         : step_planning(config, from.origin);
}

SequenceLengths checked_lengths(const Lengths& lengths) {
  if (lengths.size() == 0) invalid_input("a step of no sequences has no plan; give 1 or more");
  return tokens_of(lengths, 1);
}

std::vector<SequenceLengths> checked_steps(const std::vector<Lengths>& steps) {
  if (steps.empty()) invalid_input("no steps to plan; give 1 or more");
  std::vector<SequenceLengths> checked;
  for (const Lengths& lengths : steps) checked.push_back(checked_lengths(lengths));
  return checked;
}

/// All lengths of the steps, as a context has to keep them.
SequenceLengths all_of(const std::vector<SequenceLengths>& steps) {
  SequenceLengths all;
  for (const SequenceLengths& step : steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

/// With a context that the lengths keep; 0 = as long as the longest.
StepPlanning with_context(StepPlanning planning, const SequenceLengths& lengths,
                          std::int64_t context) {
  const Tokens longest = *std::ranges::max_element(lengths);
  planning.config.data.context = context == 0 ? longest : Tokens(context);
  require_positions(planning.config, planning.model.shape);
  if (longest > planning.config.data.context)
    invalid_input(
        "a sequence has {} tokens, the context is {}; split documents first "
        "(slimpack.split_documents), or raise the context",
        longest.count(), context);
  return planning;
}

PlanFile plan(const StepPlanning& planning, const Lengths& given, std::int64_t context,
              nb::object progress) {
  const SequenceLengths lengths = checked_lengths(given);
  PythonProgress tell(std::move(progress));
  const nb::gil_scoped_release unlocked;
  const StepPlanning step = with_context(planning, lengths, context);
  PlanOutcome outcome =
      plan_step({step.job(lengths), lengths, step.choices, step.cost}, [&] { tell(); });
  if (outcome.does_not_fit)
    throw InvalidInput(outcome.does_not_fit->message(
        step.config.plan.memory_cap
            ? "raise memory_cap, use more stages (parallel's pp) or a shorter context"
            : "the cap is what a rank's memory leaves beside weights, gradients and optimizer; "
              "Job.fit looks for changes that fit"));
  const PlanLimits limits = step.limits_for(outcome.step->plan.layout);
  return {*std::move(outcome.step), step.cost, limits};
}

/// The fit advice as JSON text and as a table.
std::pair<std::string, std::string> fit(const StepPlanning& planning, const Lengths& given,
                                        std::int64_t context, nb::object progress) {
  const SequenceLengths lengths = checked_lengths(given);
  PythonProgress tell(std::move(progress));
  const nb::gil_scoped_release unlocked;
  const StepPlanning step = with_context(planning, lengths, context);
  FitQuestion question = configured_fit(step);
  question.lengths = lengths;
  question.plan = [&](const StepQuestion& asked) { return plan_step(asked, [&] { tell(); }); };
  const FitAdvice advice = fit_advice(question);
  return {json_text(fit_figures(advice)),
          fit_text(advice, fixed_tp_text(step.config), kAnyColumns, Reader::kPython)};
}

std::vector<std::int32_t> stages_for(const StepPlanning& planning, const Lengths& given,
                                     std::int64_t context) {
  const SequenceLengths lengths = checked_lengths(given);
  const nb::gil_scoped_release unlocked;
  return with_context(planning, lengths, context).layout_for(lengths).layer_begin;
}

StepPlanning with_stages(StepPlanning planning, std::vector<std::int32_t> layer_begin) {
  const ParallelConfig& p = planning.config.parallel;
  const auto stages = static_cast<std::size_t>(p.pp) * static_cast<std::size_t>(p.stages_per_rank);
  const auto layers = static_cast<std::int32_t>(planning.cost.shape.num_layers());
  const bool rises =
      std::ranges::adjacent_find(layer_begin, std::ranges::greater_equal()) == layer_begin.end();
  if (layer_begin.size() != stages + 1 || layer_begin.front() != 0 ||
      layer_begin.back() != layers || !rises)
    invalid_input(
        "layer_begin is [{}], must rise from 0 to the model's {} layers in {} stages; "
        "take one from Job.stages_for",
        fmt::join(layer_begin, ", "), layers, stages);
  planning.layout =
      StageLayout{std::move(layer_begin), StagePlacement::of(p.placement, p.pp, p.stages_per_rank),
                  p.spread_vocabulary};
  return planning;
}

View<double> sequence_costs(const StepPlanning& planning, const Lengths& given) {
  const auto layers = static_cast<std::size_t>(planning.cost.shape.num_layers());
  const StageTable whole =
      stage_table(planning.cost, StageLayout{{0, static_cast<std::int32_t>(layers)}},
                  RecomputeByLayer(layers, planning.choices.recompute.front()));
  const std::vector<Tokens> lengths = tokens_of(given);
  std::vector<double> costs(lengths.size());
  for (const Pass pass : kWholePasses) {
    const PackCost model = whole.stage(StageId(std::int32_t{0}), pass);
    for (std::size_t i = 0; i < costs.size(); ++i)
      costs[i] += model(Slice{SequenceId(), Tokens(0), lengths[i]});
  }
  return owning_view<double>(std::move(costs));
}

/// The comparison as JSON text and as a table.
std::pair<std::string, std::string> compare(const StepPlanning& planning, const Lengths& given,
                                            std::int64_t context,
                                            const std::vector<std::string>& planners,
                                            const nb::callable& told) {
  const SequenceLengths lengths = checked_lengths(given);
  const StepPlanning step = with_context(planning, lengths, context);
  const std::vector<Job> jobs = step.jobs_to_try(lengths);
  Choices choices = step.choices;
  choices.planner = PlannerKind::kSlimpack;
  std::vector<ComparedPlanner> rows;
  for (const std::string& planner : planners) {
    told(planner);
    const nb::gil_scoped_release unlocked;
    rows.push_back(compared(planner, jobs, lengths, choices, step.cost));
  }
  return {json_text(comparison_json(rows, "lengths", jobs.front(), choices, step.cost)),
          comparison_text(rows, jobs.front().memory_cap, kAnyColumns)};
}

/// The first steps that training would draw from the documents. 0 tokens: data.step_tokens; context
/// 0: data.context.
std::vector<View<std::int64_t>> drawn(const StepPlanning& planning, const Lengths& documents,
                                      std::int64_t steps, std::int64_t step_tokens,
                                      std::int64_t context) {
  if (steps < 1 || steps > kMostDrawnSteps)
    invalid_input("steps is {}, must be 1 to {}", steps, kMostDrawnSteps);
  DataConfig data = planning.config.data;
  if (step_tokens != 0) data.step_tokens = Tokens(step_tokens);
  if (context != 0) data.context = Tokens(context);
  std::vector<View<std::int64_t>> out;
  for (SequenceLengths& step : drawn_steps(mixture_of_one(checked_lengths(documents)), data, steps))
    out.push_back(owning_view<std::int64_t>(std::move(step)));
  return out;
}

/// The layout search as JSON text and as a table.
std::pair<std::string, std::string> layouts(const StepPlanning& planning,
                                            const std::vector<Lengths>& given, std::int64_t ranks,
                                            std::int64_t context, nb::object progress) {
  std::vector<SequenceLengths> steps = checked_steps(given);
  PythonProgress tell(std::move(progress));
  const nb::gil_scoped_release unlocked;
  const StepPlanning asked = with_context(planning, all_of(steps), context);
  const Decoder& shape = asked.model.shape;
  Tokens tokens;
  for (const SequenceLengths& step : steps) tokens += total_tokens(step);
  tokens = tokens / std::ssize(steps);
  LayoutQuestion question = configured_layouts(asked.config, shape, std::move(steps),
                                               layouts_of(ranks, asked.config, shape, {}), {});
  question.tick = [&] { tell(); };
  LayoutReport report{tokens, tokens, {}, question.usual};
  report.layouts = search_layouts(question);
  return {json_text(layouts_json({report})), layouts_text({report}, {}, kAnyColumns)};
}

/// The sweep as JSON text and as a table.
std::pair<std::string, std::string> sweep(const PlanningSource& from,
                                          const std::vector<Lengths>& given,
                                          const std::vector<std::string>& over,
                                          std::int64_t context, nb::object progress) {
  const std::vector<SequenceLengths> steps = checked_steps(given);
  PythonProgress tell(std::move(progress));
  const nb::gil_scoped_release unlocked;
  const auto read = [&](std::span<const std::string> settings) {
    return run_config_from_toml(from.toml, from.origin, settings, from.folder);
  };
  SweepReport report{sweep_axes(over), {}};
  for (const SweepJob& job : sweep_jobs(read, from.overrides, report.axes))
    report.points.push_back(
        planned_point(job, with_context(planning_with(from, job.config), all_of(steps), context),
                      steps, [&] { tell(); }));
  return {json_text(sweep_json(report)), sweep_text(report, kAnyColumns)};
}

}  // namespace

void bind_planning(nb::module_& m) {
  nb::class_<StepPlanning>(m, "Planning", "Everything that planning a run's steps takes.")
      .def(nb::new_(&planning_of), "toml"_a, "origin"_a, "overrides"_a, "folder"_a,
           "model_json"_a.none())
      .def("plan", &plan, "lengths"_a, "context"_a, "progress"_a.none())
      .def("compare", &compare, "lengths"_a, "context"_a, "planners"_a, "told"_a)
      .def("fit", &fit, "lengths"_a, "context"_a, "progress"_a.none())
      .def("steps", &drawn, "documents"_a, "steps"_a, "step_tokens"_a, "context"_a)
      .def("layouts", &layouts, "steps"_a, "ranks"_a, "context"_a, "progress"_a.none())
      .def("stages_for", &stages_for, "lengths"_a, "context"_a)
      .def("with_stages", &with_stages, "layer_begin"_a)
      .def("sequence_costs", &sequence_costs, "lengths"_a,
           "Nanoseconds of each sequence's forward and backward pass over the whole model.")
      .def_prop_ro("untrainable",
                   [](const StepPlanning& planning) { return planning.model.untrainable; })
      .def_prop_ro(
          "parameters",
          [](const StepPlanning& planning) { return model_parameters(planning.cost).all(); })
      .def_prop_ro(
          "trained_parameters",
          [](const StepPlanning& planning) { return model_parameters(planning.cost).trained; })
      .def_prop_ro("ranks",
                   [](const StepPlanning& planning) { return planning.config.parallel.ranks(); });
  m.def(
      "sweep",
      [](const std::string& toml, const std::string& origin,
         const std::vector<std::string>& overrides, const std::string& folder,
         const std::optional<std::string>& model_json, const std::vector<Lengths>& steps,
         const std::vector<std::string>& over, std::int64_t context, nb::object progress) {
        return sweep({toml, origin, overrides, folder, model_json}, steps, over, context,
                     std::move(progress));
      },
      "toml"_a, "origin"_a, "overrides"_a, "folder"_a, "model_json"_a.none(), "steps"_a, "over"_a,
      "context"_a, "progress"_a.none());
  m.def("planner_names", &planner_names, "Our planner and the baselines, as compare() names them.");
}

}  // namespace slimpack
