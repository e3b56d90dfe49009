#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_fit.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/report/fit_report.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

/// The answer "no", as distinct from a failed run (1) and bad input (2).
constexpr int kDoesNotFit = 3;

struct FitArguments : RunFile {
  StepSource source;
  std::string json;
};

/// Shows the progress of each series of changed jobs.
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
  const StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  FitQuestion question = configured_fit(planning);
  StepLengths step = step_lengths(arguments.source, config, arguments.config);
  question.lengths = std::move(step.lengths);
  ChangedJobs changed;
  question.progress = [&](std::size_t done, std::size_t total) { changed.show(done, total); };
  const FitAdvice advice = fit_advice(question);
  if (!arguments.json.empty()) write_file(arguments.json, fit_figures(advice).dump(2) + "\n");
  const int columns = output_columns(stdout);
  fmt::print("step: {}\n{}\n{}", step.source, folded("data: " + step.long_documents, columns),
             fit_text(advice, fixed_tp_text(config), columns, Reader::kProgram));
  return advice.wish.fits ? 0 : kDoesNotFit;
}

}  // namespace

void add_fit_command(CLI::App& app, int& answer) {
  CLI::App* command =
      app.add_subcommand("fit", "Say whether a job fits its machine, and what would make it fit");
  const auto arguments = std::make_shared<FitArguments>();
  add_run_file(*command, *arguments)->required();
  add_step_source(*command, arguments->source);
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
