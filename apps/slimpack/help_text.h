// Help in lines that fit a terminal.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// The parser's help text with its longer lines folded at `columns`. What describes an option stays
/// in its column; other lines go on below where they began.
[[nodiscard]] std::string folded_help(std::string_view help, int columns);

}  // namespace slimpack
