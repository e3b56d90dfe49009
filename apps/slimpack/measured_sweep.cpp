// sweep --measured: finds the costs of all points first, then trains one point after the other.
#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "apps/slimpack/sweep_command.h"
#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/sweep_axes.h"
#include "slimpack/job/sweep_jobs.h"
#include "slimpack/training/measured_point.h"
#include "slimpack/training/stop_signal.h"
#include "slimpack/training/sweep_costs.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostSteps = 1000;

void require_trained_documents(const SweepArguments& arguments) {
  const StepSource& source = arguments.source;
  if (!source.lengths.empty() || !source.data.empty() || !source.distribution.empty())
    invalid_input(
        "--measured trains on the dataset data.prefix; leave out --lengths, --data and "
        "--distribution");
  if (arguments.steps < 2 || arguments.steps > kMostSteps)
    invalid_input("--steps is {}, must be 2 to {}: the first step does not count", arguments.steps,
                  kMostSteps);
}

bool stop_requested() {
  return stop_signal() != 0;
}

}  // namespace

void measured_sweep(const SweepArguments& arguments) {
  require_trained_documents(arguments);
  SweepReport report{sweep_axes(arguments.over), {}};
  const std::vector<SweepJob> jobs = sweep_jobs(arguments.config, arguments.overrides, report.axes);
  require_writable_files(arguments);
  SweepCosts known([](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  std::vector<Costs> costs;
  for (const SweepJob& job : jobs) costs.push_back(known.of(job.config));

  catch_stop_signals();
  Progress progress(stderr, progress_style(stderr), "training steps",
                    arguments.steps * std::ssize(jobs));
  for (std::size_t p = 0; p < jobs.size(); ++p) try {
      std::int64_t done = 0;
      report.points.push_back(measured_point(
          jobs[p], costs[p], arguments.steps,
          [&] {
            progress.advance();
            ++done;
          },
          stop_requested));
      progress.advance(arguments.steps - done);  // of one that does not fit
    } catch (const Interrupted&) {
      throw Interrupted(fmt::format("stopped on request after {} of {} points; nothing is written",
                                    p, jobs.size()));
    }
  progress.finish();
  show_sweep(arguments, jobs.front().config, {fmt::format("cost: {}", costs.front().source)},
             report);
}

}  // namespace slimpack
