// Reports a sweep: the table, and the figures as JSON and CSV.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
/// do not fit, and where MicroPacks or slices become too small (report/sweep_turns.h). Lines have
/// at most `columns` columns.
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

}  // namespace slimpack
