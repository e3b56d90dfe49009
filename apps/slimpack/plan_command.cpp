#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/comparison.h"
#include "slimpack/report/plan_report.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

struct PlanArguments : RunFile {
  StepSource source;
  std::string solver;
  std::string time_budget;
  std::string out;
  std::string json;
};

/// The shorthands come last: they win over --set.
std::vector<std::string> overrides_of(const PlanArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.solver.empty()) overrides.push_back("plan.solver=" + arguments.solver);
  if (!arguments.time_budget.empty())
    overrides.push_back("plan.time_budget=" + arguments.time_budget);
  return overrides;
}

/// The planner's name and, if the shortest plan was a baseline's, the baseline's name.
std::string planner_text(const RunConfig& config, const RatedPlan& step) {
  const std::string name(to_string(config.plan.planner));
  return step.baseline.empty() || step.baseline == name
             ? name
             : fmt::format("{}, as {} plans", name, step.baseline);
}

/// Planning that takes no longer writes no last line to stderr.
constexpr Nanos kMoment(1'000'000'000);

std::string progress_label(const RunConfig& config) {
  const double budget = config.plan.time_budget;
  return budget > 0 ? fmt::format("trying plans for {}", human_duration(from_seconds(budget)))
                    : "trying plans";
}

std::FILE* stream_of(const PlanArguments& arguments) {
  return report_stream({arguments.out, arguments.json});
}

/// The plan's file, if one is asked for, and what to do with it.
void write_plan(const PlanArguments& arguments, const StepPlanning& planning,
                const RatedPlan& step) {
  if (arguments.out.empty()) return;
  write_file(arguments.out,
             plan_file_to_json(step, planning.cost, planning.limits_for(step.plan.layout)));
}

/// The limit of a rank's activations, and where it comes from.
std::string cap_text(const StepPlanning& planning, const RatedPlan& step) {
  const std::optional<Bytes> cap = planning.limits_for(step.plan.layout).memory_cap;
  if (!cap) return "none";
  if (planning.config.plan.memory_cap) return human_bytes(*cap) + ", as plan.memory_cap says";
  return fmt::format(
      "{} of activations on a rank; {}% of its memory is kept free, at least the known error",
      human_bytes(*cap), reserved_percent(planning.cost));
}

std::string next_text(const PlanArguments& arguments, const char* which) {
  if (arguments.out.empty()) return "--out FILE keeps the plan for 'slimpack simulate'";
  if (arguments.out == "-") return "";
  return fmt::format("next: slimpack simulate {}{}", arguments.out, which);
}

void plan_one_step(const PlanArguments& arguments, const StepPlanning& planning,
                   const StepSamples& samples) {
  const RunConfig& config = planning.config;
  const Costs& cost = planning.cost;
  Progress progress(stderr, progress_style(stderr), progress_label(config), 0);
  const Nanos start = monotonic_now();
  const RatedPlan planned = planning.plan(samples.steps.front(), [&] { progress.advance(); });
  const Nanos taken = monotonic_now() - start;
  if (taken >= kMoment) progress.finish();

  write_plan(arguments, planning, planned);
  if (!arguments.json.empty()) {
    nlohmann::json figures = step_figures(planned, cost);
    figures["planner"] = to_string(config.plan.planner);
    figures["planning_ns"] = taken.count();
    write_file(arguments.json, json_text(figures, 2) + "\n");
  }
  ReportRows rows = step_rows(planned, cost);
  rows.insert(rows.begin(), {{"step", samples.source},
                             {"data", samples.long_documents},
                             {"planner", planner_text(config, planned)},
                             {"cost from", cost.origin.source}});
  rows.emplace_back("memory cap", cap_text(planning, planned));
  rows.emplace_back("planned in", human_duration(taken));
  std::FILE* const out = stream_of(arguments);
  fmt::print(out, "{}\n{}\n", step_report(planned, cost, rows, output_columns(out)),
             next_text(arguments, ""));
}

/// Plans the steps and writes the longest one's plan.
void plan_many_steps(const PlanArguments& arguments, StepPlanning planning,
                     const StepSamples& samples) {
  const RunConfig& config = planning.config;
  planning.layout = planning.layout_for(samples.steps.front());
  PlannerSteps planned{std::string(to_string(config.plan.planner)), {}};
  std::optional<RatedPlan> longest;
  Progress progress(stderr, progress_style(stderr), "planning steps", std::ssize(samples.steps));
  for (const SequenceLengths& lengths : samples.steps) {
    const Nanos start = monotonic_now();
    RatedPlan step = planning.plan(lengths, [&] { progress.touch(); });
    planned.steps.push_back(
        {planned.planner, figures_of(step, planning.cost), "", monotonic_now() - start});
    if (!longest || longest->prediction.makespan < step.prediction.makespan)
      longest = std::move(step);
    progress.advance();
  }
  progress.finish();
  write_plan(arguments, planning, *longest);
  if (!arguments.json.empty())
    write_file(arguments.json, json_text(steps_json({planned}, planning.cost), 2) + "\n");
  std::FILE* const out = stream_of(arguments);
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}\n{}\n\n{}\n{}\n", samples.source,
             folded("data: " + samples.long_documents, columns),
             folded(costs_text(planning.cost), columns), steps_text(planned, columns),
             next_text(arguments, " (the longest step)"));
}

void plan(const PlanArguments& arguments) {
  RunConfig config = read_run_config(arguments.config, overrides_of(arguments));
  count_targets(config.data, arguments.source);
  StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  const StepSamples samples = step_samples(arguments.source, config, arguments.config);
  if (samples.steps.size() == 1)
    plan_one_step(arguments, planning, samples);
  else
    plan_many_steps(arguments, std::move(planning), samples);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Cut one step into MicroPacks and schedule them");
  const auto arguments = std::make_shared<PlanArguments>();
  add_run_file(*command, *arguments)->required();
  add_step_source(*command, arguments->source);
  command->add_option("--solver", arguments->solver, "Short for --set plan.solver=…")
      ->type_name("auto|fluid|milp");
  command
      ->add_option("--time-budget", arguments->time_budget,
                   "Look for shorter plans for so long (--set plan.time_budget=…)")
      ->type_name("SECONDS");
  command
      ->add_option("--out", arguments->out,
                   "Write the plan here; of several steps, the longest one's")
      ->type_name("PLAN.json");
  add_json(*command, arguments->json);
  command->footer(
      step_rule() +
      " Of several steps it says how their times spread.\n\nExample, four stages of 80 GB:\n"
      "  slimpack plan run.toml --lengths lengths.txt --out plan.json \\\n"
      "      --set parallel.pp=4 --set plan.memory_cap=80GB\n\n"
      "Example, a hundred steps of documents that are yet to be collected:\n"
      "  slimpack plan run.toml --distribution log-normal:7.5,1.9 --steps 100 --out plan.json");
  command->callback([arguments] { plan(*arguments); });
}

}  // namespace slimpack
