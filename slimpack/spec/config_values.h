// Reads the value of one configuration assignment and checks it against a rule.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/shipped_files.h"
#include "slimpack/spec/toml_entries.h"

namespace slimpack {

/// One assignment of a configuration file or override.
struct ConfigEntry {
  std::string where;  ///< "run.toml:7: train.steps"
  std::string shown;  ///< the value, as errors quote it
  ConfigValue value;
  std::filesystem::path base;  ///< relative paths start here; empty = the current folder
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
