#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/fit_report.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/shape_to_plan.h"
#include "apps/slimpack/step_lengths.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

/// The answer "no", as distinct from a failed run (1) and bad input (2).
constexpr int kDoesNotFit = 3;

struct FitArguments : RunFile {
  StepSource source;
  std::string json;
};

FitJob wished_job(const RunConfig& config, const Costs& cost) {
  FitJob job{config.parallel.pp, config.parallel.dp, config.parallel.tp};
  job.choices = {.planner = config.plan.planner,
                 .granularity = config.plan.granularity,
                 .most_merged = config.plan.most_merged,
                 .solver = config.plan.solver,
                 .recompute = allowed_recomputations(config, cost),
                 .mixed_recompute = !config.plan.recompute};
  job.memory_cap = config.plan.memory_cap;
  return job;
}

/// Measured costs are those of one tp, so it stays; else it may fill a node.
FitQuestion question_of(const FitArguments& arguments, const RunConfig& config) {
  const DecoderShape shape = shape_to_plan(config);
  FitQuestion question;
  question.most_tp = config.parallel.tp;
  question.cost = [=](std::int32_t tp, std::int32_t dp) {
    RunConfig changed = config;
    changed.parallel.tp = tp;
    changed.parallel.dp = dp;
    return required_cost(changed, shape, arguments.config);
  };
  question.job = wished_job(config, question.cost(config.parallel.tp, config.parallel.dp));
  if (config.cost.file.empty() && config.hardware)
    question.most_tp = config.hardware->ranks_per_node;
  question.speed = config.parallel.speed;
  question.context = config.data.context;
  return question;
}

/// How far each series of changed jobs is.
class ChangedJobs {
 public:
  void show(std::size_t done, std::size_t total) {
    if (done == 0) {
      progress_.emplace(stderr, progress_style(stderr), "planning changed jobs",
                        static_cast<std::int64_t>(total));
      done_ = 0;
    }
    progress_->advance(static_cast<std::int64_t>(done - done_));
    done_ = done;
    if (done == total) progress_->finish();
  }

 private:
  std::optional<Progress> progress_;
  std::size_t done_ = 0;
};

int fit(const FitArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, arguments.overrides);
  FitQuestion question = question_of(arguments, config);
  StepLengths step = step_lengths(arguments.source, config, arguments.config);
  question.lengths = std::move(step.lengths);
  ChangedJobs changed;
  question.progress = [&](std::size_t done, std::size_t total) { changed.show(done, total); };
  const FitAdvice advice = fit_advice(question);
  if (!arguments.json.empty()) write_file(arguments.json, fit_figures(advice).dump(2) + "\n");
  const std::string fixed_tp =
      config.cost.file.empty()
          ? ""
          : fmt::format("{}: measured with tp {}, so parallel.tp is not changed",
                        config.cost.file.string(), config.parallel.tp);
  const int columns = output_columns(stdout);
  fmt::print("step: {}\n{}\n{}", step.source, folded("data: " + step.long_documents, columns),
             fit_text(advice, fixed_tp, columns));
  return advice.wish.fits ? 0 : kDoesNotFit;
}

}  // namespace

void add_fit_command(CLI::App& app, int& answer) {
  CLI::App* command =
      app.add_subcommand("fit", "Say whether a job fits its machine, and what would make it fit");
  const auto arguments = std::make_shared<FitArguments>();
  add_run_file(*command, *arguments)->required();
  command
      ->add_option("--lengths", arguments->source.lengths,
                   "A step of this list: one length a line; - reads standard input")
      ->type_name("FILE");
  command->add_option("--data", arguments->source.data, "The first step of this dataset")
      ->type_name("PREFIX");
  command->add_option("--json", arguments->json, "Write the printed figures to FILE as JSON")
      ->type_name("FILE");
  command->footer(
      "Weights, gradients, optimizer and activations of every stage are held against the memory "
      "of a rank, 5% of it kept free, and against plan.memory_cap. Of a job that does not fit, "
      "changes are planned one by one, and two at a time if none is enough.\n\n"
      "Exit code: 0 when the job fits, 3 when it does not, 2 for bad input.\n\n"
      "Example, a 70B model on 16 H100s:\n"
      "  slimpack fit run.toml --lengths lengths.txt \\\n"
      "      --set hardware.file=hardware/h100.toml \\\n"
      "      --set parallel.tp=8 --set parallel.pp=2");
  command->callback([arguments, &answer] { answer = fit(*arguments); });
}

}  // namespace slimpack
