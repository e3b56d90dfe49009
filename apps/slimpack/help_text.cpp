#include "apps/slimpack/help_text.h"

#include <algorithm>

#include "slimpack/base/table.h"

namespace slimpack {
namespace {

/// Where the parser puts descriptions, unless an option's name reaches beyond it.
constexpr std::size_t kDescriptions = 30;

/// The indentation of folded lines: the column after "  --option VALUE   ", or that of the text.
int hanging_indent(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t text = line.find_first_not_of(' ', gap);
  // One space may part a long name from its description.
  if (line.starts_with("  -") && line.size() > kDescriptions && line[kDescriptions - 1] == ' ' &&
      line[kDescriptions] != ' ')
    return static_cast<int>(kDescriptions);
  const bool describes = begin > 0 && gap != std::string_view::npos && text != line.npos;
  return static_cast<int>(text_width(line.substr(0, describes ? text : begin)));
}

}  // namespace

std::string folded_help(std::string_view help, int columns) {
  std::string text;
  while (!help.empty()) {
    const std::string_view line = help.substr(0, help.find('\n'));
    text += folded(line, columns, hanging_indent(line)) + "\n";
    help.remove_prefix(std::min(line.size() + 1, help.size()));
  }
  return text;
}

}  // namespace slimpack
