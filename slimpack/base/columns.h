// Text in lines that fit where they are read.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

namespace slimpack {

/// Of a file or a pipe, whose lines may have any length.
inline constexpr int kAnyColumns = std::numeric_limits<int>::max();

/// Columns of the terminal behind `out`: 80 when it does not say, kAnyColumns when it is none.
[[nodiscard]] int output_columns(std::FILE* out);

/// Columns that a UTF-8 text takes: its code points. Text of double width (CJK) takes more.
[[nodiscard]] std::size_t text_width(std::string_view text);

/// The text in lines of at most `columns`, broken at blanks; a longer word keeps a line to itself.
/// Lines after the first begin with `indent` blanks. No line end follows the last one.
[[nodiscard]] std::string folded(std::string_view text, int columns, int indent = 0);

}  // namespace slimpack
