// Reports a sweep: the table, the figures as JSON and CSV, a picture, and where along an axis
// slices and MicroPacks become too small.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/planner/sweep.h"

namespace slimpack {

struct SweepReport {
  std::vector<SweepAxis> axes;     ///< at least one
  std::vector<SweepPoint> points;  ///< of all combinations, in their order

  [[nodiscard]] const std::string& value(const SweepPoint& point, std::size_t axis) const {
    return axes[axis].values[point.at[axis]];
  }
  /// Whether the costs of all points have a peak, and so steps an MFU.
  [[nodiscard]] bool has_mfu() const;
  /// Whether any point was measured.
  [[nodiscard]] bool measured() const;
  /// Whether points run on different numbers of ranks.
  [[nodiscard]] bool ranks_differ() const;
  /// The point whose ranks train the most tokens per second each, the first of several; none if
  /// none fits.
  [[nodiscard]] std::optional<std::size_t> best() const;
  /// How many times as much time of ranks the point takes for as many tokens as the best one.
  /// REQUIRES: both fit.
  [[nodiscard]] double times_best(const SweepPoint& point) const;
};

/// "packs 64, pp 2".
[[nodiscard]] std::string point_text(const SweepReport& report, const SweepPoint& point);

/// A row for each point, the best one marked, with its ranks where these differ; below, why points
/// do not fit, and where MicroPacks or slices become too small (SweepTurn). Lines have at
/// most `columns` columns.
[[nodiscard]] std::string sweep_text(const SweepReport& report, int columns);

/// {"format": "slimpack-sweep", "version": 1, "axes": […], "points": […], "best": …, "turns": […]}.
/// Times are in nanoseconds, memory in bytes; points are named by their index.
[[nodiscard]] nlohmann::json sweep_json(const SweepReport& report);

/// A line of titles and a line for each point, with the names and units of the JSON. Cells that a
/// point lacks because it does not fit are empty.
[[nodiscard]] std::string sweep_csv(const SweepReport& report);

/// An SVG of four panels: step time, bubble, overhead and peak memory against the values of the
/// first axis, with a line for each value of the second axis. With further axes it shows their
/// values at the best point, and says which. Measured figures are drawn solid, and predicted ones
/// beside them dashed. The best point has a ring; what does not fit, a cross. The picture brings
/// its own background, dark where its reader prefers that. `title`: above the panels.
[[nodiscard]] std::string sweep_svg(const SweepReport& report, std::string_view title);

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
