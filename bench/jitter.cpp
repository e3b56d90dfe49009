#include "bench/jitter.h"

#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "slimpack/planner/replay.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

/// One piece of work in all timelines.
struct Repeated {
  double weight = 0;         ///< how long it takes
  std::vector<double> logs;  ///< by timeline
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The work that is in every timeline; its logarithms count from their own mean.
std::vector<Repeated> repeated_work(std::span<const Timeline> measured) {
  std::map<Work, std::vector<double>> all;
  for (const Timeline& timeline : measured)
    for (const auto& [work, duration] : busy_durations(timeline))
      if (duration > 0) all[work].push_back(duration);
  std::vector<Repeated> out;
  for (const auto& [work, durations] : all) {
    if (durations.size() != measured.size()) continue;
    Repeated& repeated = out.emplace_back(Repeated{mean(durations), {}});
    for (const double duration : durations) repeated.logs.push_back(std::log(duration));
    const double own = mean(repeated.logs);
    for (double& log : repeated.logs) log -= own;
  }
  return out;
}

/// Factors with mean 1 whose logarithm has this standard deviation.
class Factors {
 public:
  Factors(double jitter, std::uint64_t seed) : jitter_(jitter), rng_(seed) {}

  void apply(Nanos& time) {
    time = Nanos(static_cast<std::int64_t>(static_cast<double>(time.count()) * next()));
  }
  void apply(std::vector<Nanos>& times) {
    for (Nanos& time : times) apply(time);
  }
  void apply(std::vector<std::vector<Nanos>>& times) {
    for (std::vector<Nanos>& of_stage : times) apply(of_stage);
  }

 private:
  double next() {
    // Box and Muller's transform, which repeats on every platform; 1 - uniform is never 0.
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * rng_.uniform());
    return std::exp(jitter_ * normal - jitter_ * jitter_ / 2);
  }

  double jitter_;
  Rng rng_;
};

void jitter_times(TaskTimes& times, Factors& factors) {
  for (auto* pass :
       {&times.forward, &times.backward, &times.input_gradient, &times.weight_gradient})
    factors.apply(*pass);
  factors.apply(times.reduce);
  factors.apply(times.step_end);
}

}  // namespace

double jitter_of(std::span<const Timeline> measured) {
  SLIMPACK_CHECK(measured.size() >= 2);
  const std::vector<Repeated> work = repeated_work(measured);
  double weights = 0;
  for (const Repeated& w : work) weights += w.weight;
  if (weights == 0) return 0;
  double squares = 0;
  for (std::size_t r = 0; r < measured.size(); ++r) {
    double common = 0;
    for (const Repeated& w : work) common += w.weight / weights * w.logs[r];
    for (const Repeated& w : work)
      squares += w.weight / weights * (w.logs[r] - common) * (w.logs[r] - common);
  }
  // Each logarithm counts from the mean of as many: one degree of freedom less.
  return std::sqrt(squares / static_cast<double>(measured.size() - 1));
}

JitteredStep predict_with_jitter(const RatedPlan& step, const Costs& cost, double jitter,
                                 std::int32_t draws) {
  SLIMPACK_CHECK(jitter >= 0 && draws >= 1);
  const std::vector<ReplicaPacks> typical = costed_replicas(step, cost);
  double makespan = 0;
  double bubble_ratio = 0;
  for (std::int32_t draw = 0; draw < draws; ++draw) {
    Factors factors(jitter, static_cast<std::uint64_t>(draw));
    std::vector<ReplicaPacks> replicas = typical;
    for (ReplicaPacks& replica : replicas) jitter_times(replica.times, factors);
    const SimulationResult result = simulate(replicas, step.schedules, {kChannelSlots, false});
    makespan += static_cast<double>(result.makespan.count());
    bubble_ratio += result.bubble_ratio;
  }
  return {Nanos(static_cast<std::int64_t>(makespan / draws)), bubble_ratio / draws};
}

}  // namespace slimpack
