#include "slimpack/base/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

constexpr std::string_view kGap = "  ";

/// Code points: bytes that do not continue a UTF-8 character.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void append_cell(std::string& line, std::string_view text, std::size_t width, Align align) {
  const std::string padding(width - width_of(text), ' ');
  if (!line.empty()) line += kGap;
  if (align == Align::kRight) line += padding;
  line += text;
  if (align == Align::kLeft) line += padding;
}

void append_line(std::string& text, std::string_view line) {
  text += line.substr(0, line.find_last_not_of(' ') + 1);
  text += '\n';
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  SLIMPACK_CHECK(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(),
                 columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  std::string header;
  std::string rule;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
    append_cell(header, columns_[c].title, width, columns_[c].align);
    if (c > 0) rule += kGap;
    for (std::size_t i = 0; i < width; ++i) rule += "─";
  }
  std::string text;
  if (header.find_first_not_of(' ') != std::string::npos) {
    append_line(text, header);
    append_line(text, rule);
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      append_cell(line, row[c], widths[c], columns_[c].align);
    append_line(text, line);
  }
  return text;
}

std::string bar(double share, int width) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clipped = std::clamp(share, 0.0, 1.0);
  const auto eighths = static_cast<std::size_t>(std::lround(clipped * 8 * width));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text;
}

}  // namespace slimpack
