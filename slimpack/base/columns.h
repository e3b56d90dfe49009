// Folds text into lines that fit their reader's screen.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

namespace slimpack {

/// The columns of a file or a pipe: its lines may have any length.
inline constexpr int kAnyColumns = std::numeric_limits<int>::max();

/// Columns of the terminal behind `out`: 80 when it does not say. For no terminal those of the
/// environment variable SLIMPACK_COLUMNS, at least 40; kAnyColumns without it.
[[nodiscard]] int output_columns(std::FILE* out);

/// The number of code points of a UTF-8 text. Characters of double width (CJK) count as one column.
[[nodiscard]] std::size_t text_width(std::string_view text);

/// The text in lines of at most `columns`, broken at blanks; a longer word keeps a line to itself.
/// Lines after the first begin with `indent` blanks. No line end follows the last one.
[[nodiscard]] std::string folded(std::string_view text, int columns, int indent = 0);

}  // namespace slimpack
