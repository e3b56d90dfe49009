// Folds help into lines that fit a terminal.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// The parser's help text with lines folded at `columns`. The description of an option stays in its
/// column. Other folded lines keep their indentation.
[[nodiscard]] std::string folded_help(std::string_view help, int columns);

}  // namespace slimpack
