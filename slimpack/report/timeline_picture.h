// Timelines as a picture: any, and those of a step packed as usual and as planned.
#pragma once

#include <span>
#include <string>

#include "slimpack/planner/planner.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

struct PicturedTimeline {
  std::string title;  ///< above its rows, before its length and its bubble
  Timeline timeline;
};

/// An SVG with the timelines one below the other on one time axis: a row for each rank, a box for
/// each busy span. Its background is transparent, and its colours are readable on white and on
/// black. Where a timeline has more spans or ranks than people can tell apart, its first ranks are
/// drawn, and its title says so. REQUIRES: at least one timeline.
[[nodiscard]] std::string timelines_svg(std::span<const PicturedTimeline> timelines);

/// timelines_svg of the same documents under the baseline "packed" and as planned, both predicted.
[[nodiscard]] std::string step_svg(const PlanFile& file, const PlanLimits& limits);

}  // namespace slimpack
