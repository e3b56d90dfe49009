#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/run_terms_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/nearest.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/report/comparison.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

struct CompareArguments : RunFile {
  StepSource source;
  RunTermsOptions terms;
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

struct Comparison {
  std::vector<std::string> planners;
  StepPlanning planning;
  Choices choices;
};

Comparison comparison(const CompareArguments& arguments) {
  RunConfig config = read_run_config(arguments.config, arguments.overrides);
  count_targets(config.data, arguments.source);
  std::vector<std::string> planners = chosen_planners(arguments.only);
  StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  Choices choices = planning.choices;
  choices.planner = PlannerKind::kSlimpack;
  return {std::move(planners), std::move(planning), std::move(choices)};
}

std::string job_text(const Job& job, const Costs& cost) {
  const StageLayout& layout = job.layout;
  const std::string on =
      layout.placement.stages_per_rank() > 1 ? fmt::format(" on {} ranks", layout.ranks()) : "";
  const char* const spread = layout.spread_vocabulary ? ", vocabulary spread" : "";
  return fmt::format("{}{}{}, {}, tensor parallel {}; {}", counted(layout.stages(), "stage"), on,
                     spread, counted(job.replicas, "replica"), cost.tp, costs_text(cost));
}

std::string other_layouts_text(int columns) {
  return folded(
      "All planners run on this layout; another one (parallel.pp, dp, tp) may suit some of them "
      "better.",
      columns);
}

/// The bill of the configured run, where one is asked for.
std::optional<RunBill> bill_of(const CompareArguments& arguments, const StepPlanning& planning,
                               const StepSamples& samples, std::vector<RunSpeed> runs) {
  const RunConfig& config = planning.config;
  const auto terms = run_terms(
      arguments.terms, config.parallel.ranks(),
      static_cast<double>(config.train.steps) * static_cast<double>(samples.mean_tokens().count()));
  if (!terms) return std::nullopt;
  return RunBill{*terms, std::move(runs), known_error(planning.cost)};
}

void write_json(const std::string& file, nlohmann::json figures,
                const std::optional<RunBill>& bill) {
  if (file.empty()) return;
  if (bill) figures["run"] = to_json(*bill);
  write_file(file, json_text(figures, 2) + "\n");
}

std::string run_text(const std::optional<RunBill>& bill, int columns) {
  return bill ? "\n" + bill_text(*bill, columns) : "";
}

void compare_step(const CompareArguments& arguments, const Comparison& asked,
                  const StepSamples& samples) {
  const StepPlanning& planning = asked.planning;
  const SequenceLengths& lengths = samples.steps.front();
  const std::vector<Job> jobs = planning.jobs_to_try(lengths);
  const Job& job = jobs.front();
  std::vector<ComparedPlanner> rows;
  Progress progress(stderr, progress_style(stderr), "comparing planners",
                    std::ssize(asked.planners));
  for (const std::string& planner : asked.planners) {
    rows.push_back(
        compared(planner, jobs, lengths, asked.choices, planning.cost, [&] { progress.touch(); }));
    progress.advance();
  }
  progress.finish();
  const auto bill = bill_of(arguments, planning, samples, run_speeds(rows, job.memory_cap));
  write_json(arguments.json,
             comparison_json(rows, samples.source, job, asked.choices, planning.cost), bill);
  std::FILE* const out = report_stream({arguments.json});
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}\n{}\n\n{}{}\n{}",
             folded(fmt::format("{}, {}: {}", counted(std::ssize(lengths), "sequence"),
                                counted(total_tokens(lengths).count(), "token"), samples.source),
                    columns),
             folded("data: " + samples.long_documents, columns),
             folded(job_text(job, planning.cost), columns),
             comparison_text(rows, job.memory_cap, columns), other_layouts_text(columns),
             run_text(bill, columns));
}

void compare_many_steps(const CompareArguments& arguments, Comparison asked,
                        const StepSamples& samples) {
  StepPlanning& planning = asked.planning;
  const ParallelConfig& parallel = planning.config.parallel;
  if (!parallel.chooses_stages && !parallel.chooses_vocabulary)
    planning.layout = planning.layout_for(samples.steps.front());
  const std::vector<Job> jobs = planning.jobs_to_try(samples.steps.front());
  const Job& job = jobs.front();
  std::vector<PlannerSteps> rows;
  Progress progress(stderr, progress_style(stderr), "comparing planners",
                    std::ssize(samples.steps) * std::ssize(asked.planners));
  for (const std::string& planner : asked.planners) {
    PlannerSteps& row = rows.emplace_back(PlannerSteps{planner, {}});
    for (const SequenceLengths& lengths : samples.steps) {
      row.steps.push_back(compared(planner, jobs, lengths, asked.choices, planning.cost,
                                   [&] { progress.touch(); }));
      progress.advance();
    }
  }
  progress.finish();
  const auto bill = bill_of(arguments, planning, samples, run_speeds(rows, job.memory_cap));
  write_json(arguments.json, steps_json(rows, planning.cost), bill);
  std::FILE* const out = report_stream({arguments.json});
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}\n{}\n\n{}{}\n{}", samples.source,
             folded("data: " + samples.long_documents, columns),
             folded(job_text(job, planning.cost), columns),
             steps_comparison_text(rows, job.memory_cap, columns), other_layouts_text(columns),
             run_text(bill, columns));
}

void compare(const CompareArguments& arguments) {
  Comparison asked = comparison(arguments);
  const StepSamples samples =
      step_samples(arguments.source, asked.planning.config, arguments.config);
  if (samples.steps.size() == 1)
    compare_step(arguments, asked, samples);
  else
    compare_many_steps(arguments, std::move(asked), samples);
}

std::string footer() {
  std::string text = "Planners:\n  slimpack           plans of this program (plan, train)\n";
  for (const Baseline& baseline : baselines())
    text += fmt::format("  {:<18} {}\n", baseline.name, baseline.about);
  return text +
         "\nEvery planner gets the same sequences, layers per stage, cost model and memory cap; "
         "the same simulator rates them. The others are tuned: each takes the best of what its "
         "user "
         "could set, as printed below the table. docs/baselines.md says how each was rebuilt.\n\n" +
         step_rule() +
         " Of several steps it says how their times spread. A run has train.steps steps unless "
         "--run-tokens says otherwise."
         "\n\nExample, 4 stages and 8 replicas of 80 GB, against the two packings most in use:\n"
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
  add_step_source(*command, arguments->source);
  command->add_option("--only", arguments->only, "Compare these planners only")
      ->type_name("A,B,…")
      ->delimiter(',');
  add_run_terms(*command, arguments->terms);
  add_json(*command, arguments->json);
  command->footer(footer());
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace slimpack
