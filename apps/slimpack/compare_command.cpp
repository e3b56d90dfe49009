#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/nearest.h"
#include "slimpack/base/progress.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/report/comparison.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

struct CompareArguments : RunFile {
  std::string lengths;
  std::string json;
  std::vector<std::string> only;
};

/// The planners that the user asked for, in the table's order.
std::vector<std::string> chosen_planners(const std::vector<std::string>& only) {
  const std::vector<std::string> all = planner_names();
  const std::vector<std::string_view> known(all.begin(), all.end());
  for (const std::string& name : only)
    if (std::find(all.begin(), all.end(), name) == all.end())
      invalid_input("--only: \"{}\" is no planner; {}", name, suggestion(name, known));
  std::vector<std::string> chosen;
  for (const std::string& name : all)
    if (only.empty() || std::find(only.begin(), only.end(), name) != only.end())
      chosen.push_back(name);
  return chosen;
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

void compare(const CompareArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, arguments.overrides);
  const std::vector<std::string> planners = chosen_planners(arguments.only);
  const StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  const Costs& cost = planning.cost;
  const StepLengths step = listed_lengths(arguments.lengths, config.data);
  const Job job = planning.job(step.lengths);
  Choices choices = planning.choices;
  choices.planner = PlannerKind::kSlimpack;

  std::vector<ComparedPlanner> rows;
  Progress progress(stderr, progress_style(stderr), "comparing planners",
                    static_cast<std::int64_t>(planners.size()));
  for (const std::string& planner : planners) {
    rows.push_back(compared(planner, job, step.lengths, choices, cost));
    progress.advance();
  }
  progress.finish();
  if (!arguments.json.empty())
    write_file(arguments.json,
               comparison_json(rows, arguments.lengths, job, choices, cost).dump(2) + "\n");
  const int columns = output_columns(stdout);
  fmt::print("{}, {}: {}\n{}\n{}, {}, tensor parallel {}; costs from {}\n\n{}{}\n",
             counted(static_cast<std::int64_t>(step.lengths.size()), "sequence"),
             counted(total_tokens(step.lengths).count(), "token"), step.source,
             folded("data: " + step.long_documents, columns), counted(job.layout.stages(), "stage"),
             counted(job.replicas, "replica"), cost.tp, cost.source,
             comparison_text(rows, job.memory_cap, columns),
             folded("All planners run on this layout; another one (parallel.pp, dp, tp) may suit "
                    "some of them better.",
                    columns));
}

std::string footer() {
  std::string text = "Planners:\n  slimpack           plans of this program (plan, train)\n";
  for (const Baseline& baseline : baselines())
    text += fmt::format("  {:<18} {}\n", baseline.name, baseline.about);
  return text +
         "\nEvery planner gets the same sequences, layers per stage, cost model and memory cap; "
         "the same simulator rates them. The others are tuned: each takes the best of what its "
         "user "
         "could set, as printed below the table. docs/baselines.md says how each was rebuilt.\n\n"
         "Example, 4 stages and 8 replicas of 80 GB, against the two packings most in use:\n"
         "  slimpack compare run.toml --lengths lengths.txt \\\n"
         "      --set parallel.pp=4 --set parallel.dp=8 --set plan.memory_cap=80GB \\\n"
         "      --only slimpack,best-fit,first-fit";
}

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Rate one step as planned here and as by what users run today");
  const auto arguments = std::make_shared<CompareArguments>();
  add_run_file(*command, *arguments)->required();
  command
      ->add_option("--lengths", arguments->lengths,
                   "The step's sequences: one length a line; - reads standard input")
      ->type_name("FILE")
      ->required();
  command->add_option("--only", arguments->only, "Compare these planners only")
      ->type_name("A,B,…")
      ->delimiter(',');
  command->add_option("--json", arguments->json, "Write the printed figures to FILE as JSON")
      ->type_name("FILE");
  command->footer(footer());
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace slimpack
