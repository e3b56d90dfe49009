#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/plan_report.h"
#include "slimpack/base/file.h"
#include "slimpack/planner/planner.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

constexpr int kDrawnWidth = 96;

struct SimulateArguments {
  std::string plan;
  std::string timeline;
  std::string json;
};

void simulate_plan(const SimulateArguments& arguments) {
  const PlanFile file = plan_file_from_json(read_file(arguments.plan, "plan file"), arguments.plan);
  const PlannedStep& step = file.step;
  if (!arguments.timeline.empty())
    write_file(arguments.timeline, to_chrome_trace({step.prediction.timeline}));
  if (!arguments.json.empty())
    write_file(arguments.json, step_figures(step, file.cost).dump(2) + "\n");
  ReportRows rows = step_rows(step, file.cost);
  rows.insert(rows.begin(), {"cost from", file.cost.source});
  fmt::print("{}\n{}", step_report(step, rows), to_text(step.prediction.timeline, kDrawnWidth));
  if (!arguments.timeline.empty())
    fmt::print("\n{}: open it in ui.perfetto.dev or chrome://tracing\n", arguments.timeline);
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "Predict and draw how a plan runs");
  const auto arguments = std::make_shared<SimulateArguments>();
  command->add_option("PLAN", arguments->plan, "Written by 'slimpack plan'")->required();
  command->add_option("--timeline", arguments->timeline, "Write a Chrome trace to FILE")
      ->type_name("FILE");
  command->add_option("--json", arguments->json, "Write the printed figures to FILE as JSON")
      ->type_name("FILE");
  command->footer("Example:\n  slimpack simulate plan.json --timeline plan-trace.json");
  command->callback([arguments] { simulate_plan(*arguments); });
}

}  // namespace slimpack
