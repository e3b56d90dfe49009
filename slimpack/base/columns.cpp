#include "slimpack/base/columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

}  // namespace slimpack
