// Values of configurations: TOML text as plain data, so that one source file includes the TOML
// library, and the value of one assignment, read and checked against a rule.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/shipped_files.h"

namespace slimpack {

/// A TOML value of a type that no field takes (dates, arrays of text …).
struct OtherValue {};
/// An array holds numbers.
using ConfigValue =
    std::variant<OtherValue, bool, std::int64_t, double, std::string, std::vector<double>>;

/// `key = value`, or `[key]` with the entries below it, or `[[key]]` with a table for each of them.
struct TomlEntry {
  std::string key;
  std::string place;  ///< "run.toml:7"
  std::string shown;  ///< the value, as errors quote it
  ConfigValue value;
  bool is_table = false;
  std::vector<TomlEntry> entries;  ///< of a table, by key; of an array, if all of it are tables
};

/// Throws InvalidInput naming `origin` and line if the text is not TOML or is nested absurdly deep.
[[nodiscard]] std::vector<TomlEntry> parse_toml(std::string_view text, std::string_view origin);

/// The text as one value in TOML syntax. If it is not exactly one value (a bare word, or
/// "1\nother = 2"), the text itself as a string.
[[nodiscard]] TomlEntry parse_toml_value(std::string_view text);

/// The text in quotes on one line, shortened for messages.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// One assignment of a configuration file or override.
struct ConfigEntry {
  std::string where;  ///< "run.toml:7: train.steps"
  std::string shown;  ///< the value, as errors quote it
  ConfigValue value;
  std::filesystem::path base;          ///< relative paths start here; empty = the current folder
  std::vector<TomlEntry> tables = {};  ///< those of `[[key]]`
};

/// Throws InvalidInput naming the place, the value and the rule.
[[noreturn]] void refuse(const ConfigEntry& entry, std::string_view rule);

struct RealRule {
  std::string_view text;
  bool (*holds)(double);
};
inline constexpr RealRule kAboveZero{"a number above 0", [](double x) { return x > 0; }};
inline constexpr RealRule kNotNegative{"a number of 0 or more", [](double x) { return x >= 0; }};
inline constexpr std::string_view kBytesRule = "bytes above 0, as 1048576 or \"12GiB\"";

/// A finite number. Each of these functions throws as refuse() does.
[[nodiscard]] double read_real(const ConfigEntry& entry, const RealRule& rule);
/// An array of such numbers; errors name the element.
[[nodiscard]] std::vector<double> read_reals(const ConfigEntry& entry, const RealRule& rule);
[[nodiscard]] Bytes read_bytes(const ConfigEntry& entry);
/// `rule` states low and high in words.
[[nodiscard]] std::int64_t read_integer(const ConfigEntry& entry, std::int64_t low,
                                        std::int64_t high, std::string_view rule);
/// A path, relative to the entry's base. An empty text stays empty if that is allowed.
[[nodiscard]] std::filesystem::path read_path(const ConfigEntry& entry, bool may_be_empty);
[[nodiscard]] std::string_view path_rule(bool may_be_empty);
/// Such a path of a file of this kind, or the name of a shipped one (shipped_or).
[[nodiscard]] std::filesystem::path read_shipped(const ConfigEntry& entry, bool may_be_empty,
                                                 const Shipped& kind);

}  // namespace slimpack
