// sweep --measured: finds the costs of all points first, then trains one point after the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/slimpack/sweep_command.h"
#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/job/sweep_axes.h"
#include "slimpack/job/sweep_jobs.h"
#include "slimpack/training/configured_profile.h"
#include "slimpack/training/console.h"
#include "slimpack/training/measured_point.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostSteps = 1000;
constexpr std::int64_t kUsualSteps = 4;

std::int64_t steps_of(const SweepArguments& arguments) {
  return arguments.source.steps.value_or(kUsualSteps);
}

void require_trained_documents(const SweepArguments& arguments) {
  const StepSource& source = arguments.source;
  if (!source.lengths.empty() || !source.data.empty() || !source.distribution.empty())
    invalid_input(
        "--measured trains on the datasets of the run file; leave out --lengths, --data and "
        "--distribution");
  if (const std::int64_t steps = steps_of(arguments); steps < 2 || steps > kMostSteps)
    invalid_input("--steps is {}, must be 2 to {}: the first step does not count", steps,
                  kMostSteps);
}

/// Every point's costs. Throws also for more stages than layers: a long sweep shall not end with
/// that.
std::vector<Costs> costs_of(const std::vector<SweepJob>& jobs) {
  SweepCosts known([](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  std::vector<Costs> costs;
  for (const SweepJob& job : jobs) {
    costs.push_back(known.of(job.config));
    static_cast<void>(layouts_to_try(job.config, costs.back(), {job.config.data.context}));
  }
  return costs;
}

bool stop_requested() {
  return stop_signal() != 0;
}

/// Advances by all steps, also if the point does not fit.
SweepPoint trained(const SweepJob& job, const Costs& cost, std::int64_t steps, Progress& progress) {
  std::int64_t left = steps;
  const auto on_step = [&] {
    progress.advance();
    --left;
  };
  SweepPoint point = measured_point(job, cost, steps, on_step, stop_requested);
  progress.advance(left);
  return point;
}

std::string cost_note(const std::vector<Costs>& costs) {
  std::set<std::string> sources;
  for (const Costs& cost : costs) sources.insert(cost.origin.source);
  return fmt::format("cost: {}", fmt::join(sources, "; "));
}

}  // namespace

void measured_sweep(const SweepArguments& arguments) {
  require_trained_documents(arguments);
  SweepReport report{sweep_axes(arguments.over), {}};
  const std::vector<SweepJob> jobs = sweep_jobs(arguments.config, arguments.overrides, report.axes);
  require_writable_files(arguments);
  const std::vector<Costs> costs = costs_of(jobs);
  catch_stop_signals();
  Progress progress(stderr, progress_style(stderr), "training steps",
                    steps_of(arguments) * std::ssize(jobs));
  try {
    for (std::size_t p = 0; p < jobs.size(); ++p)
      report.points.push_back(trained(jobs[p], costs[p], steps_of(arguments), progress));
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("stopped on request after {} of {} points; nothing is written",
                                  report.points.size(), jobs.size()));
  }
  progress.finish();
  show_sweep(arguments, jobs.front().config, {cost_note(costs)}, report);
}

}  // namespace slimpack
