#include "slimpack/training/step_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "slimpack/base/file.h"
#include "slimpack/plan/pack_texts.h"
#include "slimpack/report/measured_step.h"
#include "slimpack/report/page.h"
#include "slimpack/report/page_data.h"
#include "slimpack/report/report_source.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

std::string chrome_trace(const CompletedStep& step, const Costs& cost) {
  const std::vector<DocumentSequence>& sequences = step.ready.batch.sequences;
  const auto text = [&](SequenceId sequence, Tokens begin, Tokens end) {
    const DocumentSequence& s = sequences[sequence.index()];
    return fmt::format("document {} [{}, {})", s.document, (s.begin + begin).count(),
                       (s.begin + end).count());
  };
  return to_chrome_trace({with_tensor_ranks(predict(step.ready.planned, cost).timeline, cost.tp),
                          step.result.timeline},
                         pack_texts(step.ready.planned.plan, text));
}

MeasuredStep measured_step(const CompletedStep& step, TrainingRun& run, const RunConfig& config) {
  const EngineOptions& options = run.engine().options();
  return {.step = step.step + 1,
          .clock = options.clock,
          .device = options.device.str(),
          .planner = std::string(to_string(config.plan.planner)),
          .sequences = step.ready.batch.sequences,
          .timeline = step.result.timeline};
}

}  // namespace

std::vector<std::filesystem::path> write_step_files(const std::filesystem::path& folder,
                                                    const CompletedStep& step, TrainingRun& run,
                                                    const RunConfig& config) {
  const std::filesystem::path trace = folder / "timeline.json";
  write_file(trace, chrome_trace(step, run.cost()));
  const std::filesystem::path plan = folder / kPlanName;
  write_file(plan, plan_file_to_json(step.ready.planned, run.cost(), run.plan_limits()));
  const std::filesystem::path measured = folder / kMeasuredName;
  write_file(measured, measured_step_to_json(measured_step(step, run, config)));
  return {trace, plan, measured};
}

void write_compared(const std::filesystem::path& folder, const CompletedStep& step,
                    TrainingRun& run, const RunConfig& config, const ComparedTurns& compared) {
  MeasuredStep measured = measured_step(step, run, config);
  measured.compared = compared;
  write_file(folder / kMeasuredName, measured_step_to_json(measured));
}

std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::string& program) {
  const std::filesystem::path page = folder / kReportName;
  write_file(page, page_html(page_data(read_report_source(folder), {.program = program})));
  return page;
}

}  // namespace slimpack
