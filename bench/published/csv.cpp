#include "bench/published/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "slimpack/base/error.h"

namespace slimpack::bench {
namespace {

/// In a quoted cell two quotes stand for one.
std::vector<std::string> cells_of(std::string_view line, const std::string& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) invalid_input("{}: a quote is open at the end of the line; close it", place);
  return cells;
}

/// The cell as a number; NaN if it is not one from its first character to its last.
template <class T>
double number_of(const std::string& cell) {
  T value{};
  const char* const end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error != std::errc() || stop != end) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(value);
}

[[noreturn]] void refuse(const CsvRow& row, std::string_view column, std::string_view rule) {
  invalid_input("{}: {} is \"{}\", must be {}; correct the cell", row.place(), column,
                row.text(column), rule);
}

constexpr std::string_view kCount = "a whole number from 1 to 2147483647";
constexpr std::string_view kFigure = "a number above 0";

}  // namespace

const std::string& CsvRow::text(std::string_view column) const {
  const auto found = std::ranges::find(*columns_, column);
  SLIMPACK_CHECK(found != columns_->end(), "column {}", column);
  return cells_[static_cast<std::size_t>(found - columns_->begin())];
}

std::int32_t CsvRow::count(std::string_view column) const {
  if (text(column).empty()) return 0;
  const double value = number_of<std::int32_t>(text(column));
  if (!(value >= 1)) refuse(*this, column, kCount);
  return static_cast<std::int32_t>(value);
}

double CsvRow::figure(std::string_view column) const {
  if (text(column).empty()) return 0;
  const double value = number_of<double>(text(column));
  if (!(value > 0) || !std::isfinite(value)) refuse(*this, column, kFigure);
  return value;
}

std::int32_t CsvRow::needed_count(std::string_view column) const {
  if (text(column).empty()) refuse(*this, column, kCount);
  return count(column);
}

double CsvRow::needed_figure(std::string_view column) const {
  if (text(column).empty()) refuse(*this, column, kFigure);
  return figure(column);
}

CsvTable::CsvTable(std::string_view text, std::string_view header, const std::string& origin)
    : columns_(cells_of(header, "header")) {
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string place = fmt::format("{}:{}", origin, ++line_number);
    if (line_number == 1) {
      if (line != header)
        invalid_input("{}: begins with \"{}\", must begin with \"{}\"; correct the header", place,
                      line, header);
      continue;
    }
    std::vector<std::string> cells = cells_of(line, place);
    if (cells.size() != columns_.size())
      invalid_input("{}: has {} cells, must have {} as the header; correct the line", place,
                    cells.size(), columns_.size());
    rows_.emplace_back(&columns_, std::move(cells), place);
  }
  if (line_number == 0)
    invalid_input("{}: is empty, must begin with \"{}\"; add the header", origin, header);
}

}  // namespace slimpack::bench
