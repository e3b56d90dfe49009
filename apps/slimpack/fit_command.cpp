#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/job/step_planning.h"
#include "slimpack/report/fit_report.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/spec/shipped_files.h"

namespace slimpack {
namespace {

/// The answer "no", as distinct from a failed run (1) and bad input (2).
constexpr int kDoesNotFit = 3;

constexpr std::array kDtypes{Dtype::kFp32, Dtype::kBf16, Dtype::kFp64};

/// The options that ask about text generation in place of training.
struct PromptArguments {
  std::optional<std::int64_t> tokens;  ///< none = nothing is asked
  std::int64_t answer = 256;
  std::int64_t slice = kPrefillSlice.count();
  std::string dtype{to_string(PromptQuestion().dtype)};
};

struct FitArguments : RunFile {
  StepSource source;
  PromptArguments prompt;
  std::string json;
};

/// Shows the progress of the job, then of each series of steps or of changed jobs.
class FitProgress {
 public:
  void name_series(const char* name) { series_ = name; }
  void touch() { progress_->touch(); }
  void show(std::size_t done, std::size_t total) {
    if (done == 0) {
      progress_.emplace(stderr, progress_style(stderr), series_, static_cast<std::int64_t>(total));
      done_ = 0;
    }
    progress_->advance(static_cast<std::int64_t>(done - done_));
    done_ = done;
    if (done == total) progress_->finish();
  }

 private:
  std::optional<Progress> progress_{std::in_place, stderr, progress_style(stderr),
                                    "planning the job", 0};
  const char* series_ = "planning steps";
  std::size_t done_ = 0;
};

Dtype dtype_of(std::string_view name) {
  return *std::ranges::find(kDtypes, name, [](Dtype dtype) { return to_string(dtype); });
}

int fit_prompt(const FitArguments& arguments) {
  const PromptArguments& asked = arguments.prompt;
  const PromptQuestion question{.shape = read_generating_decoder(
                                    shipped_or(arguments.config, arguments.config, kShippedModels)),
                                .dtype = dtype_of(asked.dtype),
                                .prompt = Tokens(*asked.tokens),
                                .answer = Tokens(asked.answer),
                                .slice = Tokens(asked.slice)};
  fmt::print(report_stream({arguments.json}), "{}", prompt_text(question));
  if (!arguments.json.empty())
    write_file(arguments.json, json_text(prompt_figures(question), 2) + "\n");
  return 0;
}

int fit(const FitArguments& arguments) {
  if (arguments.prompt.tokens) return fit_prompt(arguments);
  RunConfig config = read_run_config(arguments.config, arguments.overrides);
  count_targets(config.data, arguments.source);
  const StepPlanning planning = step_planning(config, arguments.config);
  tell_untrainable(config, planning.model);
  FitQuestion question = configured_fit(planning);
  const StepSamples samples = step_samples(arguments.source, config, arguments.config);
  FitProgress progress;
  question.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total); };
  question.plan = [&](const StepQuestion& asked) {
    return plan_step(asked, [&] { progress.touch(); });
  };
  const std::size_t fullest = fullest_step(question, samples.steps);
  question.lengths = samples.steps[fullest];
  progress.name_series("planning changed jobs");
  const FitAdvice advice = fit_advice(question);
  if (!arguments.json.empty()) write_file(arguments.json, json_text(fit_figures(advice), 2) + "\n");
  std::FILE* const out = report_stream({arguments.json});
  const int columns = output_columns(out);
  std::string step = "step: " + samples.source;
  if (samples.steps.size() > 1) step += fmt::format("; number {} is the fullest", fullest + 1);
  fmt::print(out, "{}\n{}\n{}", folded(step, columns),
             folded("data: " + samples.long_documents, columns),
             fit_text(advice, fixed_tp_text(config), columns, Reader::kProgram));
  return advice.wish.fits ? 0 : kDoesNotFit;
}

void add_prompt(CLI::App& command, PromptArguments& prompt) {
  command
      .add_option("--prompt", prompt.tokens,
                  "In place of training: the memory of 'slimpack generate' on a CPU with a prompt "
                  "of so many tokens; RUN.toml is then the model's folder or config.json")
      ->type_name("TOKENS");
  command.add_option("--max-new-tokens", prompt.answer, "With --prompt: of the answer")
      ->capture_default_str()
      ->type_name("TOKENS");
  command.add_option("--prefill-slice", prompt.slice, "With --prompt: as in 'slimpack generate'")
      ->capture_default_str()
      ->type_name("TOKENS");
  std::vector<std::string> names;
  for (const Dtype dtype : kDtypes) names.emplace_back(to_string(dtype));
  command.add_option("--dtype", prompt.dtype, "With --prompt: of the weights")
      ->capture_default_str()
      ->check(CLI::IsMember(names));
}

}  // namespace

void add_fit_command(CLI::App& app, int& answer) {
  CLI::App* command =
      app.add_subcommand("fit", "Say whether a job fits its machine, and what would make it fit");
  const auto arguments = std::make_shared<FitArguments>();
  add_run_file(*command, *arguments)->required();
  add_step_source(*command, arguments->source);
  add_prompt(*command, arguments->prompt);
  add_json(*command, arguments->json);
  command->footer(
      "Weights, gradients, optimizer and activations of every stage are held against the memory "
      "of a rank, of which as much stays free as the known error of memory, and against "
      "plan.memory_cap. Of a job that does not fit, "
      "changes are planned one by one, and two at a time if none is enough. Of several steps the "
      "answer is that for the fullest one.\n\n" +
      step_rule() +
      "\n\n"
      "Exit code: 0 when the job fits, 3 when it does not, 2 for bad input.\n\n"
      "Example, a 70B model on 16 H100s:\n"
      "  slimpack fit run.toml --lengths lengths.txt \\\n"
      "      --set hardware.file=hardware/h100.toml \\\n"
      "      --set parallel.tp=8 --set parallel.pp=2\n"
      "A prompt of 128K tokens for a model to answer:\n"
      "  slimpack fit models/llama-3.1-8b.json --prompt 131072");
  command->callback([arguments, &answer] { answer = fit(*arguments); });
}

}  // namespace slimpack
