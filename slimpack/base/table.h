// Text for the terminal: lines that fit their reader's screen, and tables with columns as wide as
// their widest cell and a rule below the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;  ///< numbers right, words left
  /// A table that is too wide leaves columns out, the highest number first. 0: always shown.
  int expendable = 0;
};

/// Widths count code points, so bars and dashes align.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row. REQUIRES: one cell per column.
  void add_row(std::vector<std::string> cells);

  /// Header, rule and rows, each line ended by a newline and without trailing blanks. A table
  /// whose titles are all empty has neither header nor rule. A table wider than `columns` leaves
  /// expendable columns out; if that is not enough, its last column of words is folded.
  [[nodiscard]] std::string text(int columns = kAnyColumns) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A horizontal bar of `share` (0 to 1, clipped) of `width` cells, rounded to eighths of a cell.
[[nodiscard]] std::string bar(double share, int width);

}  // namespace slimpack
