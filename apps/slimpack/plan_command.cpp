#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/plan_report.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/shape_to_plan.h"
#include "apps/slimpack/step_lengths.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/planner/planner.h"
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

/// With the baseline whose plan was the shortest, if that is what it is.
std::string planner_text(const RunConfig& config, const RatedPlan& step) {
  const std::string name(to_string(config.plan.planner));
  return step.baseline.empty() ? name : fmt::format("{}, as {} plans", name, step.baseline);
}

/// Plans that take no longer are not told of on stderr.
constexpr Nanos kMoment(1'000'000'000);

std::string progress_label(const RunConfig& config) {
  const double budget = config.plan.time_budget;
  return budget > 0 ? fmt::format("trying plans for {}", human_duration(from_seconds(budget)))
                    : "trying plans";
}

void plan(const PlanArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, overrides_of(arguments));
  const DecoderShape shape = shape_to_plan(config);
  const Costs cost = required_cost(config, shape, arguments.config);
  const StepLengths step = step_lengths(arguments.source, config, arguments.config);

  const Job job =
      configured_job(config, cost, balanced_layout(cost, step.lengths, config.parallel.pp));
  Progress progress(stderr, progress_style(stderr), progress_label(config), 0);
  const Nanos start = monotonic_now();
  const PlanOutcome outcome = plan_step(job, step.lengths, configured_choices(config, cost), cost,
                                        [&] { progress.advance(); });
  const Nanos taken = monotonic_now() - start;
  if (taken >= kMoment) progress.finish();
  if (outcome.does_not_fit) throw refused(config, *outcome.does_not_fit);

  write_file(arguments.out, plan_file_to_json(*outcome.step, cost));
  if (!arguments.json.empty()) {
    nlohmann::json figures = step_figures(*outcome.step, cost);
    figures["planner"] = to_string(config.plan.planner);
    figures["planning_ns"] = taken.count();
    write_file(arguments.json, figures.dump(2) + "\n");
  }
  ReportRows rows = step_rows(*outcome.step, cost);
  rows.insert(rows.begin(), {{"step", step.source},
                             {"data", step.long_documents},
                             {"planner", planner_text(config, *outcome.step)},
                             {"cost from", cost.source}});
  rows.emplace_back("planned in", human_duration(taken));
  fmt::print("{}\nnext: slimpack simulate {}\n",
             step_report(*outcome.step, rows, output_columns(stdout)), arguments.out);
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
