#include "slimpack/base/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// A narrower terminal could not show a table.
constexpr int kFewestColumns = 40;

/// The columns that the environment asks for, on behalf of the reader of a file or a pipe.
int asked_columns() {
  const char* const text = std::getenv("SLIMPACK_COLUMNS");
  if (text == nullptr) return kAnyColumns;
  const int columns = std::atoi(text);
  return columns > 0 ? std::max(columns, kFewestColumns) : kAnyColumns;
}

}  // namespace

int output_columns(std::FILE* out) {
  if (::isatty(::fileno(out)) != 1) return asked_columns();
  winsize size{};
  const bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::size_t text_width(std::string_view text) {
  // Bytes that do not continue a character.
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string folded(std::string_view text, int columns, int indent) {
  const auto limit = static_cast<std::size_t>(columns);
  if (text_width(text) <= limit) return std::string(text);
  std::string lines;
  std::size_t width = 0;  // of the last line
  while (!text.empty()) {
    // Blanks belong to the word after them, so a line keeps the blanks between its words.
    const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', blanks), text.size());
    const std::string_view word = text.substr(0, end);
    if (!lines.empty() && width + text_width(word) > limit) {
      lines += '\n';
      lines.append(static_cast<std::size_t>(indent), ' ');
      lines += word.substr(blanks);
      width = static_cast<std::size_t>(indent) + text_width(word.substr(blanks));
    } else {
      lines += word;
      width += text_width(word);
    }
    text.remove_prefix(end);
  }
  return lines;
}

namespace {

constexpr std::string_view kGap = "  ";
/// The least width of a folded column: a narrower one would break most words apart.
constexpr std::size_t kNarrowest = 16;

/// A shown column: its index among all columns, and its width.
struct Shown {
  std::size_t column;
  std::size_t width;
};

std::size_t total_width(const std::vector<Shown>& shown) {
  std::size_t width = shown.empty() ? 0 : kGap.size() * (shown.size() - 1);
  for (const Shown& s : shown) width += s.width;
  return width;
}

/// While the table is wider than `columns`, leaves out the most expendable column, the last of
/// equals.
void leave_out(std::vector<Shown>& shown, const std::vector<Column>& all, std::size_t columns) {
  const auto expendable = [&](const Shown& s) { return all[s.column].expendable; };
  while (total_width(shown) > columns) {
    const auto least = std::ranges::max_element(shown.rbegin(), shown.rend(), {}, expendable);
    if (least == shown.rend() || expendable(*least) == 0) return;
    shown.erase(std::next(least).base());
  }
}

/// Narrows the last column of words so that the table fits.
void narrow(std::vector<Shown>& shown, const std::vector<Column>& all, std::size_t columns) {
  const std::size_t total = total_width(shown);
  if (total <= columns) return;
  const auto words = std::ranges::find_if(shown.rbegin(), shown.rend(), [&](const Shown& s) {
    return all[s.column].align == Align::kLeft;
  });
  if (words == shown.rend()) return;
  const std::size_t excess = total - columns;
  words->width = std::max(kNarrowest, words->width - std::min(words->width, excess));
}

void append_cell(std::string& line, std::string_view text, const Shown& shown, Align align) {
  const std::string padding(shown.width - std::min(shown.width, text_width(text)), ' ');
  if (!line.empty()) line += kGap;
  if (align == Align::kRight) line += padding;
  line += text;
  if (align == Align::kLeft) line += padding;
}

void append_line(std::string& text, std::string_view line) {
  text += line.substr(0, line.find_last_not_of(' ') + 1);
  text += '\n';
}

/// Takes the first line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// A row of cells, each folded into its column. Has as many lines as its tallest cell.
void append_row(std::string& text, const std::vector<std::string>& cells,
                const std::vector<Shown>& shown, const std::vector<Column>& all) {
  std::vector<std::string> lines;
  for (const Shown& s : shown) lines.push_back(folded(cells[s.column], static_cast<int>(s.width)));
  std::vector<std::string_view> left(lines.begin(), lines.end());
  do {
    std::string line;
    for (std::size_t i = 0; i < shown.size(); ++i)
      append_cell(line, take_line(left[i]), shown[i], all[shown[i].column].align);
    append_line(text, line);
  } while (std::ranges::any_of(left, [](std::string_view rest) { return !rest.empty(); }));
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  SLIMPACK_CHECK(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(),
                 columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = text_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, text_width(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::text(int columns) const {
  std::vector<Shown> shown;
  for (std::size_t c = 0; const std::size_t width : widths()) shown.push_back({c++, width});
  leave_out(shown, columns_, static_cast<std::size_t>(columns));
  narrow(shown, columns_, static_cast<std::size_t>(columns));

  std::string header;
  std::string rule;
  for (const Shown& s : shown) {
    append_cell(header, columns_[s.column].title, s, columns_[s.column].align);
    if (!rule.empty()) rule += kGap;
    for (std::size_t i = 0; i < s.width; ++i) rule += "─";
  }
  std::string text;
  if (header.find_first_not_of(' ') != std::string::npos) {
    append_line(text, header);
    append_line(text, rule);
  }
  for (const auto& row : rows_) append_row(text, row, shown, columns_);
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
