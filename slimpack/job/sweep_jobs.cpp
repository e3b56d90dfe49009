#include "slimpack/job/sweep_jobs.h"

#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/job/sweep_axes.h"

namespace slimpack {
namespace {

constexpr std::size_t kMostPoints = 1000;

void require_few_points(const std::vector<SweepAxis>& axes) {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) {
    points *= axis.values.size();
    if (points > kMostPoints)
      invalid_input("--over: the values make {} points up to {}, at most {} are swept; give fewer",
                    points, axis.name, kMostPoints);
  }
}

SweepJob job_of(std::vector<std::size_t> at, const ConfigReader& read,
                std::span<const std::string> overrides, const std::vector<SweepAxis>& axes) {
  SweepJob job{std::move(at), {}, {}};
  std::vector<std::string> settings(overrides.begin(), overrides.end());
  const SweepAxis* searched = nullptr;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::string& value = axes[a].values[job.at[a]];
    if (is_search_axis(axes[a])) {
      searched = &axes[a];
      keep_to(job.search, axes[a], value);
    } else {
      settings.push_back(override_of(axes[a], value));
    }
  }
  job.config = read(settings);
  if (searched == nullptr) return job;
  if (job.config.plan.planner != PlannerKind::kSlimpack)
    invalid_input("--over {}: plan.planner is {}, which does not search; set it to slimpack",
                  searched->name, to_string(job.config.plan.planner));
  job.config.plan.solver = SolverKind::kFluid;
  return job;
}

}  // namespace

std::vector<SweepJob> sweep_jobs(const std::filesystem::path& run_file,
                                 std::span<const std::string> overrides,
                                 const std::vector<SweepAxis>& axes) {
  return sweep_jobs(
      [&](std::span<const std::string> settings) { return read_run_config(run_file, settings); },
      overrides, axes);
}

std::vector<SweepJob> sweep_jobs(const ConfigReader& read, std::span<const std::string> overrides,
                                 const std::vector<SweepAxis>& axes) {
  require_few_points(axes);
  std::vector<SweepJob> jobs;
  for (std::vector<std::size_t>& at : combinations(axes))
    jobs.push_back(job_of(std::move(at), read, overrides, axes));
  return jobs;
}

SweepPoint planned_point(const SweepJob& job, StepPlanning planning,
                         const std::vector<SequenceLengths>& steps,
                         const std::function<void()>& tick) {
  planning.choices.search = job.search;
  try {
    if (steps.size() > 1) planning.layout = planning.layout_for(steps.front());
    std::vector<SweepFigures> planned;
    for (const SequenceLengths& lengths : steps)
      planned.push_back(sweep_figures(planning.plan(lengths, tick), planning.cost));
    return {job.at, mean_figures(planned), {}};
  } catch (const JobDoesNotFit& e) {
    return {job.at, {}, e.what()};
  }
}

}  // namespace slimpack
