#define TOML_HEADER_ONLY 1  // the only file that includes toml++; no library to find at run time
#include "slimpack/spec/toml_entries.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return line;
}

void set_value(TomlEntry& entry, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    entry.value = *text;
    entry.shown = in_quotes(*text);
  } else if (const auto whole = node.value_exact<std::int64_t>()) {
    entry.value = *whole;
    entry.shown = fmt::format("{}", *whole);
  } else if (const auto real = node.value_exact<double>()) {
    entry.value = *real;
    entry.shown = fmt::format("{}", *real);
  } else if (const auto truth = node.value_exact<bool>()) {
    entry.value = *truth;
    entry.shown = *truth ? "true" : "false";
  } else {
    entry.value = OtherValue{};
    entry.shown = node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or time";
  }
}

/// A table's entries, and those of the tables directly in it: no file here nests deeper.
std::vector<TomlEntry> entries_of(const toml::table& table, std::string_view origin, int depth) {
  std::vector<TomlEntry> entries;
  for (const auto& [key, node] : table) {
    TomlEntry& entry = entries.emplace_back();
    entry.key = key.str();
    entry.place = fmt::format("{}:{}", origin, node.source().begin.line);
    set_value(entry, node);
    const toml::table* const below = node.as_table();
    entry.is_table = below != nullptr;
    if (below != nullptr && depth > 0) entry.entries = entries_of(*below, origin, depth - 1);
  }
  return entries;
}

constexpr int kMostDots = 100;

/// The number of the first line with absurdly many dots, 0 if there is none: toml++ bounds nested
/// values but not dotted names (a.a.a…), and its recursion over them would exhaust the stack.
std::ptrdiff_t deep_line(std::string_view text) {
  std::ptrdiff_t line = 1;
  int dots = 0;
  for (const char c : text) {
    if (c == '.' && ++dots > kMostDots) return line;
    if (c != '\n') continue;
    ++line;
    dots = 0;
  }
  return 0;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  const std::string cut(text.substr(0, kLongest));
  using nlohmann::json;
  return json(cut).dump(-1, ' ', false, json::error_handler_t::replace) +
         (text.size() > kLongest ? "…" : "");
}

std::vector<TomlEntry> parse_toml(std::string_view text, std::string_view origin) {
  if (const std::ptrdiff_t line = deep_line(text); line != 0)
    invalid_input("{}:{}: more than {} dots on a line; shorten the line", origin, line, kMostDots);
  try {
    return entries_of(toml::parse(text), origin, 1);
  } catch (const toml::parse_error& e) {
    invalid_input("{}:{}: not valid TOML: {}", origin, e.source().begin.line,
                  one_line(e.description()));
  }
}

TomlEntry parse_toml_value(std::string_view text) {
  TomlEntry entry;
  try {
    if (deep_line(text) == 0) {
      const toml::table table = toml::parse(fmt::format("value = {}", text));
      if (table.size() == 1 && table.contains("value")) {
        set_value(entry, *table.get("value"));
        return entry;
      }
    }
  } catch (const toml::parse_error&) {
    // Not TOML: a bare word.
  }
  entry.value = std::string(text);
  entry.shown = in_quotes(text);
  return entry;
}

}  // namespace slimpack
