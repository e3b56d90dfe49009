#include "apps/slimpack/training_commands.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "apps/slimpack/output_options.h"
#include "apps/slimpack/run_file_options.h"
#include "slimpack/base/error.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

void add_clock(CLI::App& command, std::string& clock) {
  command
      .add_option("--clock", clock,
                  "What times are measured by, as train.clock: virtual = as if each rank had a "
                  "core of its own")
      ->check(CLI::IsMember({"wall", "virtual"}));
}

}  // namespace

RunConfig configured_run(const RunFile& file, const std::string& clock) {
  RunConfig config = read_run_config(file.config, file.overrides);
  if (!clock.empty())
    config.train.clock = clock == "virtual" ? ClockKind::kVirtual : ClockKind::kWall;
  return config;
}

void add_train_command(CLI::App& app, std::function<void(const TrainArguments&)> run) {
  CLI::App* command = app.add_subcommand("train", "Train a model as a run configuration says");
  const auto arguments = std::make_shared<TrainArguments>();
  const auto print = std::make_shared<bool>(false);
  add_run_file(*command, *arguments);
  command
      ->add_option("--against", arguments->against,
                   "At the end, run the last step's documents by turns as planned and this way, "
                   "and compare")
      ->check(CLI::IsMember({"packed"}));
  add_clock(*command, arguments->clock);
  command
      ->add_option(
          "--resume", arguments->resume,
          "Go on from a checkpoint; auto = the newest in output.dir, or from the beginning "
          "where there is none")
      ->type_name("auto|CHECKPOINT");
  command->add_flag("--report", arguments->report,
                    "At the end, write report.html, as 'slimpack report' does");
  command
      ->add_option(
          "--log", arguments->log,
          "Send the metrics to these programs while the run goes on, as output.log: wandb, "
          "tensorboard, or both with a comma between them")
      ->type_name("NAMES");
  command
      ->add_option("--init", arguments->init,
                   "Start from the weights in this folder of a Hugging Face model")
      ->type_name("FOLDER");
  command->add_flag("--print-config", *print,
                    "Print a configuration with every key and its default");
  command->footer(
      "Writes metrics.jsonl, timeline.json (opens in Perfetto), plan.json and measured.json (for "
      "'slimpack report') and checkpoints/step-N/ (transformers loads it) to output.dir; python -m "
      "slimpack.tensorboard makes event files of the metrics. --log wandb (pip install wandb) "
      "sends them to Weights & Biases, with your login or WANDB_MODE=offline; trouble with it "
      "never ends a run. Without a cost file it first measures this machine for a few seconds and "
      "keeps what it finds in output.dir/cost.json, for a day. SIGTERM saves and ends with exit "
      "code 0, as do train.max_tokens and train.max_seconds; --resume auto goes on.\n\n"
      "Example:\n"
      "  slimpack data build --from src --glob '*.py' --out runs/corpus\n"
      "  slimpack train run.toml --set train.steps=50 --set parallel.pp=2\n"
      "  slimpack train run.toml \\\n"
      "      --set evaluation.prefix=runs/held-out --set evaluation.every=10");
  command->callback([arguments, print, run = std::move(run)] {
    if (*print) {
      fmt::print("{}", run_config_reference());
      return;
    }
    if (arguments->config.empty())
      invalid_input("train needs a run configuration; 'slimpack train --print-config' prints one");
    if (!arguments->log.empty()) arguments->overrides.push_back("output.log=" + arguments->log);
    run(*arguments);
  });
}

void add_validate_command(CLI::App& app, std::function<void(const ValidateArguments&)> run) {
  CLI::App* command =
      app.add_subcommand("validate", "Train some steps and compare them with their predictions");
  const auto arguments = std::make_shared<ValidateArguments>();
  add_run_file(*command, *arguments)->required();
  command->add_option("--steps", arguments->steps, "How many steps")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--repetitions", arguments->repetitions,
                   "How often each step runs, after a run that does not count")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_clock(*command, arguments->clock);
  command
      ->add_option("--max-error", arguments->max_error,
                   "End with exit code 1 if predicted steps are more than so many percent off on "
                   "average; 0 = any")
      ->type_name("PERCENT")
      ->check(CLI::NonNegativeNumber);
  add_json(*command, arguments->json);
  command->footer(
      "Plans steps as train does and runs each several times: the makespan, the bubble and the "
      "memory of each rank, predicted and measured, and the ten actions that are furthest off "
      "with the likely reason. Saves nothing. Without a cost file it first measures this "
      "machine.\n\n"
      "Example:\n"
      "  slimpack validate run.toml --steps 5 --max-error 10");
  command->callback([arguments, run = std::move(run)] { run(*arguments); });
}

void add_profile_command(CLI::App& app, std::function<void(const ProfileArguments&)> run) {
  CLI::App* command = app.add_subcommand("profile", "Measure what slices cost on this machine");
  const auto arguments = std::make_shared<ProfileArguments>();
  add_run_file(*command, *arguments)->required();
  command->add_option("--out", arguments->out, "Write the cost file here")
      ->type_name("COST.json")
      ->required();
  add_json(*command, arguments->json);
  command->footer(
      "Runs one layer of the model over a grid of slice lengths and prefixes, forward and "
      "backward, "
      "on as many threads as the run has ranks, and fits the cost model's coefficients.\n\n"
      "Example:\n"
      "  slimpack profile run.toml --out cost.json\n"
      "  slimpack plan run.toml --set cost.file=cost.json --out plan.json");
  command->callback([arguments, run = std::move(run)] { run(*arguments); });
}

}  // namespace slimpack
