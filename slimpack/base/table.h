// Tables for the terminal: columns as wide as their widest cell, a rule below the header.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/columns.h"

namespace slimpack {

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
