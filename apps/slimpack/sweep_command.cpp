#include "apps/slimpack/sweep_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/slimpack/output_options.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/job/sweep_axes.h"
#include "slimpack/job/sweep_jobs.h"
#include "slimpack/report/sweep_report.h"

namespace slimpack {
namespace {

/// A point's job with all that planning its step takes.
struct Planned {
  SweepJob job;
  StepPlanning planning;
  const StepSamples* samples;
};

/// The steps of jobs whose [data] differs, each read once.
class Steps {
 public:
  Steps(const StepSource& source, const std::string& config_file)
      : source_(source), config_file_(config_file) {}

  const StepSamples& of(const RunConfig& config) {
    const auto known =
        std::ranges::find(steps_, config.data, [](const auto& s) { return s->first; });
    if (known != steps_.end()) return (*known)->second;
    if (!steps_.empty() && source_.lengths == "-")
      invalid_input(
          "--lengths: standard input can be read once, and a key of [data] is swept; give a file");
    steps_.push_back(std::make_unique<std::pair<DataConfig, StepSamples>>(
        config.data, step_samples(source_, config, config_file_)));
    return steps_.back()->second;
  }

  /// Says where the samples of steps come from, if all are alike.
  [[nodiscard]] std::vector<std::string> notes() const {
    if (steps_.size() > 1) return {};
    const StepSamples& samples = steps_.front()->second;
    return {"step: " + samples.source, "data: " + samples.long_documents};
  }

 private:
  const StepSource& source_;
  const std::string& config_file_;
  std::vector<std::unique_ptr<std::pair<DataConfig, StepSamples>>> steps_;
};

void planned_sweep(const SweepArguments& arguments) {
  SweepReport report{sweep_axes(arguments.over), {}};
  Steps steps(arguments.source, arguments.config);
  std::vector<Planned> points;
  DataConfig given, counted;  // of the point before: masks are read once
  for (SweepJob& job : sweep_jobs(arguments.config, arguments.overrides, report.axes)) {
    if (job.config.data != given) {
      counted = given = job.config.data;
      count_targets(counted, arguments.source);
    }
    job.config.data = counted;
    StepPlanning planning = step_planning(job.config, arguments.config);
    const StepSamples& samples = steps.of(job.config);
    // Throws for more stages than layers: a long sweep shall not end with that.
    static_cast<void>(layouts_to_try(job.config, planning.cost, samples.steps.front()));
    points.push_back({std::move(job), std::move(planning), &samples});
  }
  tell_untrainable(points.front().job.config, points.front().planning.model);
  require_writable_files(arguments);
  Progress progress(stderr, progress_style(stderr), "planning points", std::ssize(points));
  for (Planned& point : points) {
    report.points.push_back(planned_point(point.job, std::move(point.planning),
                                          point.samples->steps, [&] { progress.touch(); }));
    progress.advance();
  }
  progress.finish();
  show_sweep(arguments, points.front().job.config, steps.notes(), report);
}

std::string title_of(const RunConfig& config, const SweepReport& report) {
  std::vector<std::string> names;
  for (const SweepAxis& axis : report.axes) names.push_back(axis.name);
  return fmt::format("{}: the step by {}", config.model.config.stem().string(),
                     fmt::join(names, " and "));
}

void add_options(CLI::App& command, SweepArguments& arguments) {
  add_run_file(command, arguments)->required();
  command
      .add_option("--over", arguments.over,
                  "What varies (repeatable: all combinations): a key of the run file, as in "
                  "granularity=64,128 or parallel.pp=1,2,4, or a choice of the planner's search: "
                  "packs, taper, order")
      ->type_name("AXIS=V1,V2,…")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_step_source(command, arguments.source);
  command.add_flag("--measured", arguments.measured,
                   "Train every point on the run's dataset for --steps steps (4 without it; the "
                   "first does not count), and set what was measured beside what was predicted");
  add_json(command, arguments.json);
  command.add_option("--csv", arguments.csv, "Write the printed figures to FILE as CSV")
      ->type_name("FILE");
  command
      .add_option("--svg", arguments.svg,
                  "Draw them against the first axis, a line for each value of the second")
      ->type_name("FILE");
}

}  // namespace

void require_writable_files(const SweepArguments& arguments) {
  for (const std::string& file : {arguments.json, arguments.csv, arguments.svg})
    if (!file.empty()) require_writable_file(file);
}

void show_sweep(const SweepArguments& arguments, const RunConfig& config,
                const std::vector<std::string>& notes, const SweepReport& report) {
  if (!arguments.json.empty()) write_file(arguments.json, json_text(sweep_json(report), 2) + "\n");
  if (!arguments.csv.empty()) write_file(arguments.csv, sweep_csv(report));
  if (!arguments.svg.empty())
    write_file(arguments.svg, sweep_svg(report, title_of(config, report)));
  std::FILE* const out = report_stream({arguments.json, arguments.csv, arguments.svg});
  const int columns = output_columns(out);
  for (const std::string& note : notes) fmt::print(out, "{}\n", folded(note, columns));
  fmt::print(out, "{}{}", notes.empty() ? "" : "\n", sweep_text(report, columns));
}

void add_sweep_command(CLI::App& app, std::function<void(const SweepArguments&)> measure) {
  CLI::App* command =
      app.add_subcommand("sweep", "Show how a job's step depends on the choices one can make");
  const auto arguments = std::make_shared<SweepArguments>();
  add_options(*command, *arguments);
  command->footer(
      "Every combination of the values is a point. For each it says step time, bubble, overhead "
      "(what MicroPacks and slices cost by themselves, of the busy time) and peak memory; and "
      "along packs and granularity, from where on MicroPacks or slices are too small. Of several "
      "steps the "
      "figures are means, memory and MicroPacks the most of any.\n\n" +
      step_rule() +
      "\n\n"
      "Choices of the search, which it makes by itself where they are not swept:\n"
      "  packs  MicroPacks of a pass on each replica\n"
      "  taper  the size of the first and the last of them, as a share of the others; 1 = alike\n"
      "  order  so many of the shortest sequences come before the longest\n\n"
      "Example, how many MicroPacks on how many stages:\n"
      "  slimpack sweep run.toml --lengths lengths.txt \\\n"
      "      --over packs=16,32,64,128,256 --over pp=2,4 --svg sweep.svg\n\n"
      "Example, measured on this machine:\n"
      "  slimpack sweep run.toml --over granularity=64,128,256 --measured --steps 6");
  command->callback([arguments, measure = std::move(measure)] {
    arguments->measured ? measure(*arguments) : planned_sweep(*arguments);
  });
}

}  // namespace slimpack
