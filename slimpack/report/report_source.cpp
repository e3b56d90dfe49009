#include "slimpack/report/report_source.h"

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {
namespace {

PlanFile read_plan(const std::filesystem::path& file) {
  return plan_file_from_json(read_file(file, "plan file"), file.string());
}

}  // namespace

std::int32_t ReportSource::ranks() const {
  const StepPlan& step = plan.step.plan;
  return step.layout.ranks() * static_cast<std::int32_t>(step.replicas.size()) * plan.cost.tp;
}

PlanLimits ReportSource::limits() const {
  return plan.limits ? *plan.limits : limits_shown_by(plan.step);
}

ReportSource read_report_source(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    invalid_input(
        "there is no '{}'; give the folder of a run (output.dir) or a file of 'slimpack plan "
        "--out'",
        path.string());
  ReportSource source{path.string(), {}, std::nullopt, std::nullopt};
  if (!std::filesystem::is_directory(path, error)) {
    source.plan = read_plan(path);
    return source;
  }
  const std::filesystem::path measured = path / kMeasuredName;
  if (!std::filesystem::exists(path / kPlanName, error))
    invalid_input(
        "'{}' has no {}, which 'slimpack train' writes when it ends; give the folder of a run "
        "(output.dir)",
        path.string(), kPlanName);
  source.plan = read_plan(path / kPlanName);
  source.measured =
      measured_step_from_json(read_file(measured, "measured step"), measured.string());
  require_measured_of(source.plan.step.plan, *source.measured, measured.string());
  const std::filesystem::path metrics = path / kMetricsName;
  source.curve = training_curve_from_lines(read_file(metrics, "metrics"), metrics.string());
  return source;
}

}  // namespace slimpack
