#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/configured_cost.h"
#include "apps/slimpack/configured_request.h"
#include "apps/slimpack/override_option.h"
#include "apps/slimpack/plan_report.h"
#include "apps/slimpack/step_lengths.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sampler.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {
namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string lengths;
  std::string data;
  std::string out;
  std::string json;
};

/// A length list is one step as it stands; of a dataset it is the sampler's first step. Both are
/// cut at the context, as in training.
StepLengths step_lengths(const PlanArguments& arguments, const RunConfig& config) {
  if (!arguments.lengths.empty() && !arguments.data.empty())
    invalid_input("plan takes either --lengths {} or --data {}, not both", arguments.lengths,
                  arguments.data);
  if (!arguments.lengths.empty()) return listed_lengths(arguments.lengths, config.data.context);
  const std::string prefix = arguments.data.empty() ? config.data.prefix.string() : arguments.data;
  if (prefix.empty())
    invalid_input(
        "{}: no sequences to plan; give --lengths FILE or --data PREFIX, or set "
        "data.prefix",
        arguments.config);
  Sampler sampler(IndexedDataset::open(prefix).lengths(),
                  {config.data.context, config.data.step_tokens}, {config.data.seed, 0, 0});
  StepLengths step;
  for (const SampledDocument& document : sampler.next_step())
    step.lengths.push_back(document.length);
  step.source = fmt::format("{}, first step of seed {}", prefix, config.data.seed);
  return step;
}

void plan(const PlanArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, arguments.overrides);
  const ModelShape shape = read_model_shape(config.model.config);
  const CostModel cost = required_cost(config, shape, arguments.config);
  StepLengths step = step_lengths(arguments, config);

  const Nanos start = monotonic_now();
  const PlanOutcome outcome =
      plan_step(configured_request(config, cost, std::move(step.lengths)), cost);
  const Nanos taken = monotonic_now() - start;
  if (outcome.does_not_fit) throw InvalidInput(outcome.does_not_fit->message());

  write_file(arguments.out, plan_file_to_json(*outcome.step, cost));
  if (!arguments.json.empty()) {
    nlohmann::json figures = step_figures(*outcome.step);
    figures["planner"] = to_string(config.plan.planner);
    figures["planning_ns"] = taken.count();
    write_file(arguments.json, figures.dump(2) + "\n");
  }
  ReportRows rows = step_rows(*outcome.step);
  rows.insert(rows.begin(), {{"step", step.source},
                             {"planner", std::string(to_string(config.plan.planner))},
                             {"cost from", cost.source}});
  rows.emplace_back("planned in", human_duration(taken));
  fmt::print("{}\nnext: slimpack simulate {}\n", step_report(*outcome.step, rows), arguments.out);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Cut one step into MicroPacks and schedule them");
  const auto arguments = std::make_shared<PlanArguments>();
  command->add_option("--config", arguments->config, "Run configuration")
      ->type_name("RUN.toml")
      ->required();
  add_overrides(*command, arguments->overrides);
  command->add_option("--lengths", arguments->lengths, "Plan this list: one length a line")
      ->type_name("FILE");
  command->add_option("--data", arguments->data, "Plan the first step of this dataset")
      ->type_name("PREFIX");
  command->add_option("--out", arguments->out, "Writes the plan here")
      ->type_name("PLAN.json")
      ->required();
  command->add_option("--json", arguments->json, "Write the printed figures to FILE as JSON")
      ->type_name("FILE");
  command->footer(
      "Without --lengths and --data, the dataset is data.prefix of the run configuration.\n\n"
      "Example, four stages of 80 GB:\n"
      "  slimpack plan --config run.toml --lengths lengths.txt --out plan.json \\\n"
      "      --set parallel.pp=4 --set plan.memory_cap=80GB");
  command->callback([arguments] { plan(*arguments); });
}

}  // namespace slimpack
