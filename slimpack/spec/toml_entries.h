// TOML text as plain data, so that one source file includes the TOML library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace slimpack {

/// A TOML value of a type that no field takes (dates, arrays of text …).
struct OtherValue {};
/// An array holds numbers.
using ConfigValue =
    std::variant<OtherValue, bool, std::int64_t, double, std::string, std::vector<double>>;

/// `key = value`, or `[key]` with the entries below it.
struct TomlEntry {
  std::string key;
  std::string place;  ///< "run.toml:7"
  std::string shown;  ///< the value, as errors quote it
  ConfigValue value;
  bool is_table = false;
  std::vector<TomlEntry> entries;  ///< of a table, by key
};

/// Throws InvalidInput naming `origin` and line if the text is not TOML or is nested absurdly deep.
[[nodiscard]] std::vector<TomlEntry> parse_toml(std::string_view text, std::string_view origin);

/// The text as one value in TOML syntax. If it is not exactly one value (a bare word, or
/// "1\nother = 2"), the text itself as a string.
[[nodiscard]] TomlEntry parse_toml_value(std::string_view text);

/// The text in quotes on one line, shortened for messages.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace slimpack
