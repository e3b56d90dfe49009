// The files of a run's last step: what was planned, and what was measured of it.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "slimpack/data/sequences.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/measured_step.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// Chrome trace of timelines of a plan's step, whose slices are named by their documents.
/// `sequences`: by SequenceId.
[[nodiscard]] std::string documents_trace(const StepPlan& plan,
                                          const std::vector<Timeline>& timelines,
                                          std::span<const DocumentSequence> sequences);

/// Writes to `folder`, and returns the paths:
///  - timeline.json: the predicted and the measured timeline as a Chrome trace;
///  - plan.json: the plan, as `slimpack plan --out` writes it;
///  - measured.json: what was measured, and the documents of its sequences (MeasuredStep).
/// Throws as write_file.
[[nodiscard]] std::vector<std::filesystem::path> write_step_files(
    const std::filesystem::path& folder, const PlanFile& plan, const MeasuredStep& measured);

/// Writes measured.json alone, such as with a comparison besides.
void write_measured(const std::filesystem::path& folder, const MeasuredStep& measured);

/// Writes report.html from the files in `folder`; `program` is named as its maker. Returns the
/// path.
[[nodiscard]] std::filesystem::path write_report(const std::filesystem::path& folder,
                                                 const std::string& program);

}  // namespace slimpack
