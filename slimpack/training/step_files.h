// The files of a run's last step: what was planned, and what was measured of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slimpack/report/compared_turns.h"
#include "slimpack/training/training_run.h"

namespace slimpack {

/// Writes to `folder`, and returns the paths:
///  - timeline.json: both timelines as a Chrome trace;
///  - plan.json: the plan, as `slimpack plan --out` writes it;
///  - measured.json: what was measured, and the documents of its sequences (MeasuredStep).
/// REQUIRES: called in the first process of a job.
[[nodiscard]] std::vector<std::filesystem::path> write_step_files(
    const std::filesystem::path& folder, const CompletedStep& step, TrainingRun& run,
    const RunConfig& config);

/// Writes measured.json anew, with the comparison of the step besides.
void write_compared(const std::filesystem::path& folder, const CompletedStep& step,
                    TrainingRun& run, const RunConfig& config, const ComparedTurns& compared);

/// Writes report.html from the files in `folder`; `program` is named as its maker. Returns the
/// path.
[[nodiscard]] std::filesystem::path write_report(const std::filesystem::path& folder,
                                                 const std::string& program);

}  // namespace slimpack
