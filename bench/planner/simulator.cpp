// Simulator speed: actions (one pass of one MicroPack on one stage) rated per second.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack::bench {
namespace {

/// Simulations are repeated until this long, so that one measurement is many clock ticks.
constexpr Nanos kLeast{100'000'000};

/// What the simulator is given; the planner's own preparation is not timed.
struct Prepared {
  RatedPlan step;
  std::vector<ReplicaPacks> replicas;
  std::int64_t actions = 0;
  std::size_t merged_packs = 0;

  explicit Prepared(const LlamaJob& job) {
    const StepJob planned = llama_job(job);
    RatedStep ours = rated(planned);
    SLIMPACK_CHECK(ours.step.has_value(), "{}", ours.error);
    merged_packs = ours.figures.merged_packs;
    step = std::move(*ours.step);
    replicas = costed_replicas(step, planned.cost);
    for (const Schedule& schedule : step.schedules)
      for (const auto& stage : schedule.ranks) actions += std::ssize(stage);
  }
};

/// Actions per second, once.
double rate(const Prepared& prepared, bool timeline) {
  const Nanos start = monotonic_now();
  std::int64_t actions = 0;
  while (monotonic_now() - start < kLeast) {
    const SimulationResult result =
        simulate(prepared.replicas, prepared.step.schedules, {.timeline = timeline});
    SLIMPACK_CHECK(result.makespan == prepared.step.prediction.makespan);
    actions += prepared.actions;
  }
  return static_cast<double>(actions) / to_seconds(monotonic_now() - start);
}

double median_rate(const Prepared& prepared, bool timeline, int repetitions) {
  std::vector<double> rates;
  for (int r = 0; r < repetitions; ++r) rates.push_back(rate(prepared, timeline));
  return median(rates);
}

}  // namespace

void run_simulator(const BenchOptions& options, Report& report) {
  struct Named {
    const char* name;
    LlamaJob job;
  };
  const Named jobs[] = {{"one replica, 8 ranks", {512, 1, 1, false}},
                        {"64 replicas, 512 ranks", {4096, 64, 1, false}},
                        {"the same ranks, long documents merged", {512, 64, 8, false}}};
  PartProgress progress("simulator", std::ssize(jobs));
  Table table({{"job", Align::kLeft}, {"actions"}, {"merged packs"}, {"rate"}, {"with timeline"}});
  double slowest[] = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  for (const Named& named : jobs) {
    const Prepared prepared(named.job);
    const double rates[] = {median_rate(prepared, false, options.repetitions),
                            median_rate(prepared, true, options.repetitions)};
    for (const std::size_t i : {0, 1}) slowest[i] = std::min(slowest[i], rates[i]);
    table.add_row({named.name, grouped(prepared.actions), fmt::format("{}", prepared.merged_packs),
                   text_of(rates[0], Unit::kRate), text_of(rates[1], Unit::kRate)});
    report.add(fmt::format("simulator/{}", named.name), "slimpack",
               {{"actions", prepared.actions},
                {"actions_per_second", rates[0]},
                {"actions_per_second_with_timeline", rates[1]}});
    progress.advance();
  }
  progress.finish();
  report.add_goal({"simulator: actions per second, slowest job", slowest[0], Goal::Sense::kAtLeast,
                   10e6, Unit::kRate});
  report.add_goal(
      {"simulator: the same with a timeline", slowest[1], Goal::Sense::kAtLeast, 3e6, Unit::kRate});
  fmt::print("\nSimulator: one thread, medians of {}\n\n{}", options.repetitions, table.text());
}

}  // namespace slimpack::bench
