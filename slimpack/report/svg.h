// Parts that SVG pictures share.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// A text at (x, y), with '<' and '&' escaped. `more`: attributes.
[[nodiscard]] std::string svg_text(double x, double y, std::string_view text,
                                   std::string_view more = "");

/// A straight line of this class.
[[nodiscard]] std::string svg_line(double x1, double y1, double x2, double y2,
                                   std::string_view kind);

}  // namespace slimpack
