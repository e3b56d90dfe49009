#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/planner/planner.h"
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
  return step.baseline.empty() ? name : fmt::format("{}, as {} plans", name, step.baseline);
}

/// Planning that takes no longer writes no last line to stderr.
constexpr Nanos kMoment(1'000'000'000);

std::string progress_label(const RunConfig& config) {
  const double budget = config.plan.time_budget;
  return budget > 0 ? fmt::format("trying plans for {}", human_duration(from_seconds(budget)))
                    : "trying plans";
}

void plan(const PlanArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, overrides_of(arguments));
  const StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  const Costs& cost = planning.cost;
  const StepLengths step = step_lengths(arguments.source, config, arguments.config);
  Progress progress(stderr, progress_style(stderr), progress_label(config), 0);
  const Nanos start = monotonic_now();
  const RatedPlan planned = planning.plan(step.lengths, [&] { progress.advance(); });
  const Nanos taken = monotonic_now() - start;
  if (taken >= kMoment) progress.finish();

  write_file(arguments.out, plan_file_to_json(planned, cost));
  if (!arguments.json.empty()) {
    nlohmann::json figures = step_figures(planned, cost);
    figures["planner"] = to_string(config.plan.planner);
    figures["planning_ns"] = taken.count();
    write_file(arguments.json, figures.dump(2) + "\n");
  }
  ReportRows rows = step_rows(planned, cost);
  rows.insert(rows.begin(), {{"step", step.source},
                             {"data", step.long_documents},
                             {"planner", planner_text(config, planned)},
                             {"cost from", cost.source}});
  rows.emplace_back("planned in", human_duration(taken));
  fmt::print("{}\nnext: slimpack simulate {}\n", step_report(planned, rows, output_columns(stdout)),
             arguments.out);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Cut one step into MicroPacks and schedule them");
  const auto arguments = std::make_shared<PlanArguments>();
  add_run_file(*command, *arguments)->required();
  command
      ->add_option("--lengths", arguments->source.lengths,
                   "Plan this list: one length a line; - reads standard input")
      ->type_name("FILE");
  command->add_option("--data", arguments->source.data, "Plan the first step of this dataset")
      ->type_name("PREFIX");
  command->add_option("--solver", arguments->solver, "Short for --set plan.solver=…")
      ->type_name("auto|fluid|milp");
  command
      ->add_option("--time-budget", arguments->time_budget,
                   "Look for shorter plans for so long (--set plan.time_budget=…)")
      ->type_name("SECONDS");
  command->add_option("--out", arguments->out, "Writes the plan here")
      ->type_name("PLAN.json")
      ->required();
  command->add_option("--json", arguments->json, "Write the printed figures to FILE as JSON")
      ->type_name("FILE");
  command->footer(
      "Without --lengths and --data, the dataset is data.prefix of the run configuration.\n\n"
      "Example, four stages of 80 GB:\n"
      "  slimpack plan run.toml --lengths lengths.txt --out plan.json \\\n"
      "      --set parallel.pp=4 --set plan.memory_cap=80GB");
  command->callback([arguments] { plan(*arguments); });
}

}  // namespace slimpack
