// Reads what a sweep varies from the words of a command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/planner/planner.h"
#include "slimpack/planner/sweep.h"

namespace slimpack {

/// The axes of "AXIS=V1,V2,…". AXIS is a key of the run file ("plan.granularity", or "granularity"
/// alone where only one section has such a key), or a choice of the planner's search:
///  - packs: MicroPacks of a pass on each replica at most, which it has where sequences can be cut
///  so;
///  - taper: the share of a full MicroPack that the first and the last have; 1 = all are alike;
///  - order: so many of the shortest sequences come before the longest.
/// Throws InvalidInput for unknown and repeated axes, for keys that change nothing about a step,
/// and for empty and repeated values. Whether a key takes a value is found when it is set.
[[nodiscard]] std::vector<SweepAxis> sweep_axes(std::span<const std::string> over);

/// Whether the axis is a choice of the search, and no key of the run file.
[[nodiscard]] bool is_search_axis(const SweepAxis& axis);

/// Keeps this choice of the search to the value. Baselines are then left out: they choose by
/// themselves. Throws InvalidInput for a value out of range. REQUIRES: is_search_axis(axis).
void keep_to(SearchOptions& search, const SweepAxis& axis, const std::string& value);

/// The axis' value as "section.key=value". REQUIRES: !is_search_axis(axis).
[[nodiscard]] std::string override_of(const SweepAxis& axis, const std::string& value);

}  // namespace slimpack
