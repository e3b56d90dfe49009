#include "slimpack/report/svg.h"

#include <fmt/format.h>

#include "slimpack/report/xml_text.h"

namespace slimpack {

std::string svg_text(double x, double y, std::string_view text, std::string_view more) {
  return fmt::format("<text x=\"{:.5g}\" y=\"{:.5g}\" {}>{}</text>\n", x, y, more, xml_text(text));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line x1=\"{:.5g}\" y1=\"{:.5g}\" x2=\"{:.5g}\" y2=\"{:.5g}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, kind);
}

}  // namespace slimpack
