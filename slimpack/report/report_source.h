// Report source: what a report is made of, read from a run's folder or from a plan file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "slimpack/planner/planner.h"
#include "slimpack/report/measured_step.h"
#include "slimpack/report/training_curve.h"

namespace slimpack {

/// The files of a run's folder that a report reads.
inline constexpr const char* kPlanName = "plan.json";          ///< the last step's plan
inline constexpr const char* kMeasuredName = "measured.json";  ///< what was measured of it
inline constexpr const char* kMetricsName = "metrics.jsonl";
inline constexpr const char* kReportName = "report.html";

struct ReportSource {
  std::string name;  ///< the folder or the file, for people
  PlanFile plan;
  std::optional<MeasuredStep> measured;  ///< with curve: of a run's folder only
  std::optional<TrainingCurve> curve;

  /// The limits of the plan: those that its file states, or those that the plan shows.
  [[nodiscard]] PlanLimits limits() const;
  /// The ranks of all replicas, tensor-parallel ones included.
  [[nodiscard]] std::int32_t ranks() const;
};

/// Reads a run's folder or a plan file. Throws InvalidInput naming the file: it is missing,
/// damaged, of another version, or not of the same step as the others.
[[nodiscard]] ReportSource read_report_source(const std::filesystem::path& path);

}  // namespace slimpack
