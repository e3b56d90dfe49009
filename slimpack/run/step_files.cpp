#include "slimpack/run/step_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "slimpack/base/file.h"
#include "slimpack/plan/pack_texts.h"
#include "slimpack/report/page.h"
#include "slimpack/report/report_source.h"

namespace slimpack {
std::string documents_trace(const StepPlan& plan, const std::vector<Timeline>& timelines,
                            std::span<const DocumentSequence> sequences) {
  const auto text = [&](SequenceId sequence, Tokens begin, Tokens end) {
    const DocumentSequence& s = sequences[sequence.index()];
    return fmt::format("document {} [{}, {})", s.document, (s.begin + begin).count(),
                       (s.begin + end).count());
  };
  return to_chrome_trace(timelines, pack_texts(plan, text));
}

std::vector<std::filesystem::path> write_step_files(const std::filesystem::path& folder,
                                                    const PlanFile& plan,
                                                    const MeasuredStep& measured) {
  const auto& [step, cost, limits] = plan;
  const std::filesystem::path trace = folder / "timeline.json";
  write_file(trace, documents_trace(step.plan,
                                    {with_tensor_ranks(predict(step, cost).timeline, cost.tp),
                                     measured.timeline},
                                    measured.sequences));
  const std::filesystem::path planned = folder / kPlanName;
  write_file(planned, plan_file_to_json(step, cost, limits));
  write_measured(folder, measured);
  return {trace, planned, folder / kMeasuredName};
}

void write_measured(const std::filesystem::path& folder, const MeasuredStep& measured) {
  write_file(folder / kMeasuredName, measured_step_to_json(measured));
}

std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::string& program) {
  const std::filesystem::path page = folder / kReportName;
  write_file(page, page_html(page_data(read_report_source(folder), {.program = program})));
  return page;
}

}  // namespace slimpack
