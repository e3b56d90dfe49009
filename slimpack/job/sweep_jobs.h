// The jobs of a sweep: a run configuration and search options for each combination of values.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/job/step_planning.h"
#include "slimpack/plan/slice.h"
#include "slimpack/planner/sweep.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct SweepJob {
  std::vector<std::size_t> at;  ///< SweepPoint::at
  RunConfig config;
  SearchOptions search;
};

/// The jobs of all combinations, in that order. The axes' values win over `overrides`. Where a
/// choice of the search is swept, the solver is the fast one: exact answers choose by themselves.
/// Throws InvalidInput for more than 1,000 combinations, for values that their keys do not take,
/// and where the search of a job's planner has no such choice.
[[nodiscard]] std::vector<SweepJob> sweep_jobs(const std::filesystem::path& run_file,
                                               std::span<const std::string> overrides,
                                               const std::vector<SweepAxis>& axes);

/// Sweeps a configuration that `read` makes of all settings.
using ConfigReader = std::function<RunConfig(std::span<const std::string> settings)>;
[[nodiscard]] std::vector<SweepJob> sweep_jobs(const ConfigReader& read,
                                               std::span<const std::string> overrides,
                                               const std::vector<SweepAxis>& axes);

/// Plans the job's steps of these lengths, at least one. The figures are mean_figures of the steps.
/// `planning`: of the job's configuration. A step that does not fit is a point, too. `tick`, if
/// set, is called after each candidate plan. Throws InvalidInput as plan_step.
[[nodiscard]] SweepPoint planned_point(const SweepJob& job, StepPlanning planning,
                                       const std::vector<SequenceLengths>& steps,
                                       const std::function<void()>& tick = nullptr);

}  // namespace slimpack
