// Step errors: how far a step's prediction is from its measured repetitions, and why.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/replay.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// A part of a rank's work whose duration was predicted wrongly.
struct ActionError {
  Work work;
  Nanos predicted;
  Nanos measured;      ///< median over the repetitions
  double spread = 0;   ///< (slowest − fastest repetition) ÷ median
  std::string reason;  ///< in words

  [[nodiscard]] double error() const {
    return static_cast<double>(predicted.count()) /
               static_cast<double>(std::max(Nanos(1), measured).count()) -
           1;
  }
};

/// The `most` parts of the work whose measured time is furthest from the predicted one, in
/// nanoseconds; `reason` stays empty. Work that only one of the two did does not count.
/// REQUIRES: a repetition. Cost: O(spans · log(spans)).
[[nodiscard]] std::vector<ActionError> largest_action_errors(const Timeline& predicted,
                                                             std::span<const Timeline> measured,
                                                             std::size_t most);

struct StepErrors {
  Nanos measured;   ///< makespan, median over the repetitions
  Nanos replayed;   ///< simulated with every action at its median (replay.h)
  Nanos predicted;  ///< simulated with the costs
  double measured_bubble = 0;
  double predicted_bubble = 0;
  /// The median over all work of its spread: what no prediction of durations can know.
  double jitter = 0;
  std::vector<Bytes> measured_peak;  ///< by rank, the largest of the repetitions
  std::vector<Bytes> predicted_peak;
  /// Whether each rank ran exactly the predicted work in the predicted order, every time.
  bool same_order = true;
  std::vector<ActionError> worst;  ///< furthest off first, in nanoseconds

  /// The error of the makespan, predicted ÷ measured − 1. replayed_error is the simulator's part,
  /// which includes the jitter; the rest is the costs' part.
  [[nodiscard]] double error() const { return ratio(predicted, measured) - 1; }
  [[nodiscard]] double replayed_error() const { return ratio(replayed, measured) - 1; }
  /// The largest |predicted ÷ measured − 1| of the ranks' peaks.
  [[nodiscard]] double memory_error() const;

 private:
  [[nodiscard]] static double ratio(Nanos a, Nanos b) {
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
  }
};

/// Compares a planned step with its repetitions; keeps the `most` worst parts of the work.
/// REQUIRES: a repetition, all of this step. Cost: a simulation, and O(spans · log(spans)).
[[nodiscard]] StepErrors step_errors(const RatedPlan& step, const Costs& cost,
                                     std::span<const Timeline> measured, std::size_t most = 10);

}  // namespace slimpack
