#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/planner/layout_search.h"
#include "slimpack/report/layout_report.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

struct LayoutArguments : RunFile {
  std::string model;
  std::vector<std::string> hardware;
  std::vector<std::filesystem::path> costs;
  std::optional<std::int64_t> ranks;
  std::vector<std::int64_t> context;
  std::vector<std::int64_t> step_tokens;
  StepSource source;
  RunTermsOptions terms;
  std::string json;
  std::string svg;
};

/// The settings of one search that win over the configuration's.
struct SearchedJob {
  std::string hardware = {};  ///< empty = as configured
  std::optional<std::int64_t> context = std::nullopt;
  std::optional<std::int64_t> step_tokens = std::nullopt;
};

/// One step may be unlike the others.
constexpr std::int64_t kUsualSteps = 4;

/// Without a run configuration every option of the planner is on.
constexpr const char* kDefaults[] = {"plan.backward=split", "plan.recompute=auto",
                                     "train.dtype=bf16", "train.device=cuda"};

/// The settings of one search, as --set takes them.
std::vector<std::string> settings_of(const SearchedJob& job) {
  std::vector<std::string> settings;
  if (!job.hardware.empty()) settings.push_back("hardware.file=" + job.hardware);
  if (job.context) settings.push_back(fmt::format("data.context={}", *job.context));
  if (job.step_tokens) settings.push_back(fmt::format("data.step_tokens={}", *job.step_tokens));
  return settings;
}

/// The options come last: they win over --set.
RunConfig config_of(const LayoutArguments& arguments, const SearchedJob& job) {
  std::vector<std::string> overrides;
  if (arguments.config.empty()) overrides.assign(std::begin(kDefaults), std::end(kDefaults));
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  if (!arguments.model.empty()) overrides.push_back("model.config=" + arguments.model);
  const std::vector<std::string> own = settings_of(job);
  overrides.insert(overrides.end(), own.begin(), own.end());
  if (!arguments.config.empty()) return read_run_config(arguments.config, overrides);
  if (arguments.model.empty())
    invalid_input("no model to lay out; give --model CONFIG.json, or a RUN.toml");
  if (arguments.hardware.empty() && arguments.costs.empty())
    invalid_input("no costs to lay out with; give --hardware FILE or --costs FILES, or a RUN.toml");
  return run_config_from_toml("", "the options", overrides, std::filesystem::current_path());
}

/// Without a run configuration: the settings that the run has, for people who write one.
std::vector<std::string> settings_of(const LayoutArguments& arguments) {
  if (!arguments.config.empty()) return {};
  return {std::begin(kDefaults), std::end(kDefaults)};
}

LayoutReport searched(const LayoutArguments& arguments, const SearchedJob& job,
                      const RunConfig& config, const Decoder& shape, const CostFiles& files,
                      const StepSamples& samples) {
  const std::int64_t ranks = arguments.ranks.value_or(config.parallel.ranks());
  const Tokens tokens = samples.mean_tokens();
  LayoutReport report{samples.drawn ? config.data.step_tokens : tokens, tokens, {}, {}};
  report.settings = settings_of(job);
  report.context = config.data.context;
  if (config.hardware && arguments.costs.empty()) report.hardware = config.hardware->name;
  LayoutQuestion question = configured_layouts(config, shape, samples.steps,
                                               layouts_of(ranks, config, shape, files), files);
  report.usual = question.usual;
  std::optional<Progress> progress;
  const auto begin = [&](const char* what, std::int64_t steps) {
    if (progress) progress->finish();
    progress.emplace(stderr, progress_style(stderr), what, steps);
  };
  begin("planning layouts", std::ssize(samples.steps) * std::ssize(question.grids));
  question.progress = [&](std::int64_t steps) { progress->advance(steps); };
  question.more = [&](std::int64_t steps) { begin("trying small changes", steps); };
  question.tick = [&] { progress->touch(); };
  report.layouts = search_layouts(question);
  progress->finish();
  return report;
}

std::string title_of(const RunConfig& config, const LayoutReport& report) {
  return fmt::format("{} on {} ranks, steps of {} tokens", config.model.config.stem().string(),
                     report.layouts.front().grid.ranks(), grouped(report.step_tokens.count()));
}

/// Every combination of machines, contexts and sizes of steps that the options name.
std::vector<SearchedJob> jobs_of(const LayoutArguments& arguments) {
  std::vector<SearchedJob> jobs{{}};
  const auto vary = [&](const auto& values, auto SearchedJob::*figure) {
    std::vector<SearchedJob> varied;
    for (const SearchedJob& job : jobs)
      for (const auto& value : values) {
        varied.push_back(job);
        varied.back().*figure = value;
      }
    if (!values.empty()) jobs = std::move(varied);
  };
  vary(arguments.hardware, &SearchedJob::hardware);
  vary(arguments.context, &SearchedJob::context);
  vary(arguments.step_tokens, &SearchedJob::step_tokens);
  if (jobs.size() > 1 && arguments.source.lengths == "-")
    invalid_input(
        "--lengths: standard input can be read once, and {} searches need the list; give a file",
        jobs.size());
  if (arguments.hardware.size() > 1 && !arguments.costs.empty())
    invalid_input(
        "--hardware names {} kinds of machines, but the costs of --costs are those of one; leave "
        "one of the two options out",
        arguments.hardware.size());
  return jobs;
}

void print_report(const LayoutArguments& arguments, const std::vector<LayoutReport>& reports,
                  const RunConfig& config, const StepSamples& samples) {
  const LayoutReport& best = best_of(reports);
  const std::string title = title_of(config, best);
  const RatedLayout& fastest = best.layouts.front();
  const auto terms =
      run_terms(arguments.terms, fastest.grid.ranks(),
                static_cast<double>(config.train.steps) * static_cast<double>(best.tokens.count()));
  std::optional<RunBill> bill;
  if (terms) bill = RunBill{*terms, run_speeds(reports), fastest.known};
  if (!arguments.json.empty()) {
    nlohmann::json figures = layouts_json(reports);
    if (bill) figures["run"] = to_json(*bill);
    write_file(arguments.json, json_text(figures, 2) + "\n");
  }
  if (!arguments.svg.empty()) write_file(arguments.svg, layout_svg(best, title));
  std::FILE* const out = report_stream({arguments.json, arguments.svg});
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}\n{}\n\n{}{}", folded(title, columns), folded(samples.source, columns),
             folded("data: " + samples.long_documents, columns),
             layouts_text(reports, settings_of(arguments), columns),
             bill ? "\n" + bill_text(*bill, columns) : "");
}

void layout(const LayoutArguments& arguments) {
  const CostFiles files = cost_files(arguments.costs);
  std::vector<LayoutReport> reports;
  StepSamples samples;
  RunConfig config;
  for (const SearchedJob& job : jobs_of(arguments)) {
    config = config_of(arguments, job);
    count_targets(config.data, arguments.source);
    const PlannableModel model = planned_model(config);
    if (reports.empty()) tell_untrainable(config, model);
    samples = step_samples(arguments.source, config, arguments.config, kUsualSteps);
    reports.push_back(searched(arguments, job, config, model.shape, files, samples));
  }
  print_report(arguments, reports, config, samples);
}

void add_job_options(CLI::App& command, LayoutArguments& arguments) {
  command
      .add_option(
          "--model", arguments.model,
          "The model, for --set model.config=…: a config.json, its folder or a shipped name")
      ->type_name("MODEL");
  command
      .add_option("--hardware", arguments.hardware,
                  "The machines, for --set hardware.file=…: a hardware file or a shipped name; "
                  "several are compared")
      ->type_name("FILE|NAME,…")
      ->delimiter(',');
  command
      .add_option("--costs", arguments.costs,
                  "Measured costs (slimpack profile) in place of them, a file for each tp")
      ->type_name("FILE,…")
      ->delimiter(',');
  command.add_option("--ranks", arguments.ranks, "GPUs to share out; else those of [parallel]")
      ->type_name("N");
  command
      .add_option("--context", arguments.context,
                  "For --set data.context=…; several contexts are compared")
      ->type_name("TOKENS,…")
      ->delimiter(',');
  command
      .add_option("--step-tokens", arguments.step_tokens,
                  "For --set data.step_tokens=…; several sizes are compared")
      ->type_name("N,…")
      ->delimiter(',');
}

}  // namespace

void add_layout_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("layout", "Find the tp × pp × dp on which a run trains fastest");
  const auto arguments = std::make_shared<LayoutArguments>();
  add_run_file(*command, *arguments);
  add_job_options(*command, *arguments);
  add_step_source(*command, arguments->source);
  add_run_terms(*command, arguments->terms);
  add_json(*command, arguments->json);
  command->add_option("--svg", arguments->svg, "Draw tokens per second by layout")
      ->type_name("FILE");
  command->footer(
      step_rule("four") +
      " Every layout plans the same ones.\n\n"
      "Every layout of the ranks whose lower bound leaves it a chance plans the same steps, with "
      "every merging and recomputation that the run allows. Without RUN.toml, layers recompute "
      "what suits them, backwards may be split, and numbers are bf16 on GPUs.\n\n"
      "Example, an 8B model on 256 H100s:\n"
      "  slimpack layout --model llama-3.1-8b --hardware h100 \\\n"
      "      --ranks 256 --lengths lengths.txt \\\n"
      "      --context 131072 --step-tokens 4194304 --svg layouts.svg\n\n"
      "Example, what twice the context and newer GPUs would cost:\n"
      "  slimpack layout run.toml --hardware h100,h200 --context 65536,131072 \\\n"
      "      --run-tokens 200B --price-per-gpu-hour 2.50");
  command->callback([arguments] { layout(*arguments); });
}

}  // namespace slimpack
