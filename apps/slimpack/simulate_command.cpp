#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/table.h"
#include "slimpack/plan/pack_texts.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/plan_report.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

/// The most columns of the drawing: wider lines are hard to follow.
constexpr int kWidest = 120;

struct SimulateArguments {
  std::string plan;
  std::string timeline;
  std::string json;
};

std::string drawing(const Timeline& timeline, int columns) {
  const auto label = static_cast<int>(fmt::format("rank {} ||", timeline.ranks - 1).size());
  return to_text(timeline, std::max(std::min(columns, kWidest) - label, 1));
}

std::string trace_of(const RatedPlan& step, const Costs& cost) {
  const auto text = [](SequenceId sequence, Tokens begin, Tokens end) {
    return fmt::format("sequence {} [{}, {})", sequence.value(), begin.count(), end.count());
  };
  return to_chrome_trace({with_tensor_ranks(step.prediction.timeline, cost.tp)},
                         pack_texts(step.plan, text));
}

void simulate_plan(const SimulateArguments& arguments) {
  const PlanFile file = plan_file_from_json(read_file(arguments.plan, "plan file"), arguments.plan);
  const RatedPlan& step = file.step;
  if (!arguments.timeline.empty()) write_file(arguments.timeline, trace_of(step, file.cost));
  if (!arguments.json.empty())
    write_file(arguments.json, json_text(step_figures(step, file.cost), 2) + "\n");
  ReportRows rows = step_rows(step, file.cost);
  rows.insert(rows.begin(), {"cost from", file.cost.origin.source});
  std::FILE* const out = report_stream({arguments.json, arguments.timeline});
  const int columns = output_columns(out);
  fmt::print(out, "{}\n{}", step_report(step, file.cost, rows, columns),
             drawing(step.prediction.timeline, columns));
  if (!arguments.timeline.empty() && arguments.timeline != "-")
    fmt::print(out, "\n{}: open it in ui.perfetto.dev or chrome://tracing\n", arguments.timeline);
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "Predict and draw how a plan runs");
  const auto arguments = std::make_shared<SimulateArguments>();
  command->add_option("PLAN", arguments->plan, "Written by 'slimpack plan'")->required();
  command->add_option("--timeline", arguments->timeline, "Write a Chrome trace to FILE")
      ->type_name("FILE");
  add_json(*command, arguments->json);
  command->footer("Example:\n  slimpack simulate plan.json --timeline plan-trace.json");
  command->callback([arguments] { simulate_plan(*arguments); });
}

}  // namespace slimpack
