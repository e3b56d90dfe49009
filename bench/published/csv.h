// Tables of published measurements: comma-separated values with a header, cells in quotes allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack::bench {

/// One row, whose cells are found by the names of their columns.
class CsvRow {
 public:
  CsvRow(const std::vector<std::string>* columns, std::vector<std::string> cells, std::string place)
      : columns_(columns), cells_(std::move(cells)), place_(std::move(place)) {}

  /// REQUIRES: the header has this column.
  [[nodiscard]] const std::string& text(std::string_view column) const;
  /// 0 for an empty cell. Throws InvalidInput unless the cell is empty or a whole number from 1 to
  /// 2^31 − 1.
  [[nodiscard]] std::int32_t count(std::string_view column) const;
  /// 0 for an empty cell. Throws InvalidInput unless the cell is empty or a finite number above 0.
  [[nodiscard]] double figure(std::string_view column) const;
  /// These read like count and figure, but throw for an empty cell, too.
  [[nodiscard]] std::int32_t needed_count(std::string_view column) const;
  [[nodiscard]] double needed_figure(std::string_view column) const;
  [[nodiscard]] const std::string& place() const { return place_; }  ///< "steps.csv:7"

 private:
  const std::vector<std::string>* columns_;
  std::vector<std::string> cells_;
  std::string place_;
};

class CsvTable {
 public:
  /// Throws InvalidInput naming `origin` and line unless the first line is `header`, every other
  /// one has as many cells, and every quote is closed.
  CsvTable(std::string_view text, std::string_view header, const std::string& origin);
  CsvTable(const CsvTable&) = delete;  // rows point to its columns
  CsvTable& operator=(const CsvTable&) = delete;
  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }

 private:
  std::vector<std::string> columns_;
  std::vector<CsvRow> rows_;
};

}  // namespace slimpack::bench
