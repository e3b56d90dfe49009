// A sweep as a picture.
#pragma once

#include <string>
#include <string_view>

#include "slimpack/report/sweep_report.h"

namespace slimpack {

/// An SVG of four panels: step time, bubble, overhead and peak memory against the values of the
/// first axis, with a line for each value of the second axis. With further axes it shows their
/// values at the best point, and says which. Measured figures are drawn solid, and predicted ones
/// beside them dashed. The best point has a ring; what does not fit, a cross. The picture brings
/// its own background, dark where its reader prefers that. `title`: above the panels.
[[nodiscard]] std::string sweep_svg(const SweepReport& report, std::string_view title);

}  // namespace slimpack
