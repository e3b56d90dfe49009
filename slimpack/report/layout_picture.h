// A layout search as a picture.
#pragma once

#include <string>
#include <string_view>

#include "slimpack/report/layout_report.h"

namespace slimpack {

/// An SVG: a cell for every layout, with tp by row and pp by column, which says tokens per second
/// and dp. Darker cells are faster. `title`: above the cells.
[[nodiscard]] std::string layout_svg(const LayoutReport& report, std::string_view title);

}  // namespace slimpack
