// Finds where along an axis of a sweep slices and MicroPacks become too small.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/report/sweep_report.h"

namespace slimpack {

/// The mean rank's time in a step, in parts that add up to the makespan.
struct StepParts {
  double overhead = 0;  ///< nanoseconds: what MicroPacks and slices cost by themselves
  double work = 0;      ///< tokens and prefixes, reduction, optimizer
  double waiting = 0;
};
[[nodiscard]] StepParts parts_of(const SweepFigures& figures);

/// The points of a sweep that differ in one axis with Finer, from coarse to fine.
struct SweepTurn {
  std::size_t axis = 0;  ///< of the sweep's axes
  std::size_t best = 0;  ///< the point with the shortest step; the coarsest of them
  /// The coarsest point from which on all finer ones have a notably longer step than the best.
  std::optional<std::size_t> longer;
  bool finest = false;  ///< no finer point than the best fits

  /// Whether slices are too small: the step is longer because ranks compute more, rather than
  /// because they wait more. REQUIRES: longer.
  [[nodiscard]] bool too_small(const SweepReport& report) const;
};

/// For every axis with Finer and every combination of the other axes' values of which two points or
/// more fit. A step is notably longer by 0.5%, a measured one by 5%.
[[nodiscard]] std::vector<SweepTurn> sweep_turns(const SweepReport& report);

/// Two sentences. "packs: the step is shortest with 512, and slices are too small from 1024 on.
/// With 1024 it takes 3% longer: …"
[[nodiscard]] std::string turn_text(const SweepReport& report, const SweepTurn& turn);

}  // namespace slimpack
