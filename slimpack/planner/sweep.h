// Sweep: how a job's step depends on choices. Plain data, of predictions and measurements alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The values of an axis that make slices and MicroPacks smaller.
enum class Finer : std::uint8_t {
  kNeither,
  kHigher,  ///< the number of MicroPacks
  kLower,   ///< the granularity of cuts
};

/// A choice and the values that it takes in turn.
struct SweepAxis {
  std::string name;                 ///< "packs", "granularity", "hardware.file"
  std::string unit = {};            ///< of the values, for people; empty = they have none
  std::vector<std::string> values;  ///< in the order in which they are shown; each once
  Finer finer = Finer::kNeither;    ///< not kNeither: all values are numbers

  bool operator==(const SweepAxis&) const = default;
};

/// A step of one point, predicted or measured.
struct SweepTimes {
  Nanos makespan;
  double bubble = 0;  ///< 1 − busy / (ranks × makespan)
  Bytes peak;         ///< of activations, on the rank that holds the most
};

/// The figures of one point's step.
struct SweepFigures {
  Tokens tokens;
  SweepTimes predicted;
  std::optional<SweepTimes> measured;
  std::size_t forward_packs = 0;   ///< MicroPacks of the replica that has most
  std::size_t backward_packs = 0;  ///< likewise
  std::size_t slices = 0;          ///< of all replicas and both passes
  /// The time that MicroPacks and slices cost by themselves (StageTable::overhead_time) ÷ the time
  /// that ranks are busy.
  double overhead = 0;
  std::int64_t ranks = 1;     ///< pp × dp × tp
  std::optional<double> mfu;  ///< predicted; absent without a peak

  /// The measured times, else the predicted ones.
  [[nodiscard]] const SweepTimes& times() const { return measured ? *measured : predicted; }
  /// Tokens per second of one rank: steps on different numbers of ranks compare by it.
  [[nodiscard]] double rank_speed() const;
};

/// One combination of values.
struct SweepPoint {
  std::vector<std::size_t> at;          ///< by axis, the index of its value
  std::optional<SweepFigures> figures;  ///< absent if it does not fit
  std::string misfit;                   ///< then one line that says why
};

/// Every combination of the axes' values, the last axis's changing fastest.
[[nodiscard]] std::vector<std::vector<std::size_t>> combinations(
    const std::vector<SweepAxis>& axes);

/// The predicted figures of a step.
[[nodiscard]] SweepFigures sweep_figures(const RatedPlan& step, const Costs& cost);

/// One step that stands for several predicted ones: of tokens, makespan, bubble, overhead and
/// slices the mean, of memory and MicroPacks the most. REQUIRES: at least one step.
[[nodiscard]] SweepFigures mean_figures(const std::vector<SweepFigures>& steps);

}  // namespace slimpack
