#include "slimpack/solver/step_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "slimpack/solver/balance.h"
#include "slimpack/solver/bound_times.h"
#include "slimpack/solver/share_bound.h"

namespace slimpack {
namespace {

/// Backward as a whole, and until its output can be sent.
constexpr Pass kBackwards[] = {Pass::kBackward, Pass::kInputGradient};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

class Bound {
 public:
  Bound(const Job& job, const SequenceLengths& lengths, const RecomputingCosts& cost,
        const CutLimits& limits)
      : lengths_(lengths),
        times_(job, lengths, cost, limits),
        splits_(cost.weight_gradient != EdgeTime()) {}

  /// Times are rounded to nanoseconds action by action and hop by hop, so a plan may come out a
  /// little shorter than the sum of its unrounded times.
  [[nodiscard]] Nanos run() const {
    constexpr double kFloatingPoint = 1e-12;
    double bound = chain_of_longest();
    for (const Pass backward : kBackwards) {
      for (std::int32_t s = 0; s < times_.stages(); ++s) bound = std::max(bound, work(s, backward));
      if (times_.groups() == 1) bound = std::max(bound, balance_of_stages(backward));
    }
    if (times_.groups() > 1)
      for (const Pass backward : kBackwards) bound = shared(backward, bound);
    // What is sent of a split backward is the difference of two rounded times.
    const double off = splits_ ? 1 : 0.5;
    const double rounding = std::min(1.0, off / times_.shortest_action() + kFloatingPoint);
    const double hops = times_.stages() - 1;  // there and back, half a nanosecond each
    return Nanos(static_cast<std::int64_t>(std::max(0.0, bound * (1 - rounding) - hops)));
  }

 private:
  /// The longest sequence has the longest chain but for the size of its last slice.
  [[nodiscard]] double chain_of_longest() const {
    const Tokens longest = *std::ranges::max_element(lengths_);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < times_.groups(); ++k)
      least = std::min(least, times_.chain(longest, k));
    return least;
  }

  /// Of a stage, with all sequences evenly shared out.
  [[nodiscard]] double work(std::int32_t s, Pass backward) const {
    return times_.around(s, backward) +
           sum(times_.works_on(s, backward, 0)) / sum(times_.speed_on(s));
  }

  [[nodiscard]] double balance_of_stages(Pass backward) const {
    double bound = 0;
    for (std::int32_t s = 0; s < times_.stages(); ++s) {
      BalanceProblem balance{times_.works_on(s, backward, 0), {}};
      for (const double speed : times_.speed_on(s)) balance.replicas.push_back({speed, 0.0});
      bound = std::max(bound, times_.around(s, backward) + balance_bound(balance));
    }
    return bound;
  }

  /// The share bound of the stage with the most work; at least `known`.
  [[nodiscard]] double shared(Pass backward, double known) const {
    std::int32_t busiest = 0;
    for (std::int32_t s = 1; s < times_.stages(); ++s)
      if (work(s, backward) > work(busiest, backward)) busiest = s;
    ShareProblem problem{{}, {}, times_.speed_on(busiest), times_.around(busiest, backward)};
    const double fastest = std::ranges::max(problem.speed);
    for (std::size_t k = 0; k < times_.groups(); ++k) {
      auto& load = problem.load.emplace_back(times_.works_on(busiest, backward, k));
      auto& step = problem.step.emplace_back();
      for (std::size_t i = 0; i < load.size(); ++i)
        step.push_back(std::max(times_.chain(lengths_[i], k), problem.around + load[i] / fastest));
    }
    return share_bound(problem, known);
  }

  const SequenceLengths& lengths_;
  BoundTimes times_;
  bool splits_;
};

}  // namespace

Nanos step_actions_bound(const Job& job, const SequenceLengths& lengths,
                         const RecomputingCosts& cost, const CutLimits& limits) {
  return Bound(job, lengths, cost, limits).run();
}

Nanos step_lower_bound(const Job& job, const SequenceLengths& lengths, const RecomputingCosts& cost,
                       const CutLimits& limits) {
  const TaskTimes ends = task_times(cost, job.layout, {}, {job.replicas, {}});
  const Nanos step_end = *std::max_element(ends.step_end.begin(), ends.step_end.end());
  double speed = 1;
  for (const auto& replica : job.speed)
    speed = std::max(speed, *std::max_element(replica.begin(), replica.end()));
  const auto rest = static_cast<double>((ends.reduce.front() + step_end).count()) / speed;
  return step_actions_bound(job, lengths, cost, limits) + Nanos(static_cast<std::int64_t>(rest));
}

}  // namespace slimpack
