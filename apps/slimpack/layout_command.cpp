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
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
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
  std::string hardware;
  std::vector<std::filesystem::path> costs;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> context;
  std::vector<std::int64_t> step_tokens;
  StepSource source;
  std::string json;
  std::string svg;
};

/// One step may be unlike the others.
constexpr std::int64_t kUsualSteps = 4;

/// Without a run configuration every option of the planner is on.
constexpr const char* kDefaults[] = {"plan.backward=split", "plan.recompute=auto",
                                     "train.dtype=bf16", "train.device=cuda"};

/// The options come last: they win over --set.
RunConfig config_of(const LayoutArguments& arguments) {
  std::vector<std::string> overrides;
  if (arguments.config.empty()) overrides.assign(std::begin(kDefaults), std::end(kDefaults));
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  const auto add = [&](const char* key, const std::string& value) {
    overrides.push_back(fmt::format("{}={}", key, value));
  };
  if (!arguments.model.empty()) add("model.config", arguments.model);
  if (!arguments.hardware.empty()) add("hardware.file", arguments.hardware);
  if (arguments.context) add("data.context", fmt::to_string(*arguments.context));
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

LayoutReport searched(const LayoutArguments& arguments, const RunConfig& config,
                      const Decoder& shape, const CostFiles& files, const StepSamples& samples) {
  const std::int64_t ranks = arguments.ranks.value_or(config.parallel.ranks());
  const Tokens tokens = samples.mean_tokens();
  LayoutReport report{samples.drawn ? config.data.step_tokens : tokens, tokens, {}, {}};
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

void layout(const LayoutArguments& arguments) {
  RunConfig config = config_of(arguments);
  count_targets(config.data, arguments.source);
  const PlannableModel model = planned_model(config);
  tell_untrainable(config, model);
  const CostFiles files = cost_files(arguments.costs);
  std::vector<Tokens> sizes(arguments.step_tokens.begin(), arguments.step_tokens.end());
  config.data.step_tokens_asked |= !sizes.empty();
  if (sizes.empty()) sizes.push_back(config.data.step_tokens);
  if (sizes.size() > 1 && arguments.source.lengths == "-")
    invalid_input(
        "--lengths: standard input can be read once, and --step-tokens has several sizes; give a "
        "file");
  std::vector<LayoutReport> reports;
  StepSamples samples;
  for (const Tokens size : sizes) {
    if (size < Tokens(1)) invalid_input("--step-tokens has {}, must be 1 or more", size.count());
    config.data.step_tokens = size;
    samples = step_samples(arguments.source, config, arguments.config, kUsualSteps);
    reports.push_back(searched(arguments, config, model.shape, files, samples));
  }
  const LayoutReport& best = best_of(reports);
  const std::string title = title_of(config, best);
  if (!arguments.json.empty()) write_file(arguments.json, layouts_json(reports).dump(2) + "\n");
  if (!arguments.svg.empty()) write_file(arguments.svg, layout_svg(best, title));
  std::FILE* const out = report_stream({arguments.json, arguments.svg});
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}\n{}\n\n{}", folded(title, columns), folded(samples.source, columns),
             folded("data: " + samples.long_documents, columns),
             layouts_text(reports, settings_of(arguments), columns));
}

void add_job_options(CLI::App& command, LayoutArguments& arguments) {
  command
      .add_option(
          "--model", arguments.model,
          "The model, for --set model.config=…: a config.json, its folder or a shipped name")
      ->type_name("MODEL");
  command
      .add_option("--hardware", arguments.hardware,
                  "The machines, for --set hardware.file=…: a hardware file or a shipped name")
      ->type_name("FILE|NAME");
  command
      .add_option("--costs", arguments.costs,
                  "Measured costs (slimpack profile) in place of them, a file for each tp")
      ->type_name("FILE,…")
      ->delimiter(',');
  command.add_option("--ranks", arguments.ranks, "GPUs to share out; else those of [parallel]")
      ->type_name("N");
  command.add_option("--context", arguments.context, "For --set data.context=…")
      ->type_name("TOKENS");
  command
      .add_option("--step-tokens", arguments.step_tokens,
                  "Tokens of a step, in place of data.step_tokens; several sizes are compared")
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
      "      --context 131072 --step-tokens 4194304 --svg layouts.svg");
  command->callback([arguments] { layout(*arguments); });
}

}  // namespace slimpack
