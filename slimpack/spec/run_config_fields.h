// The table of every key of the run configuration; parser and reference text are loops over it.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "slimpack/spec/run_config.h"

namespace slimpack {

/// A TOML value of a type that no field takes (arrays, dates …).
struct OtherValue {};
using ConfigValue = std::variant<OtherValue, bool, std::int64_t, double, std::string>;

/// One assignment of a configuration file or override.
struct ConfigEntry {
  std::string where;  ///< "run.toml:7: train.steps"
  std::string shown;  ///< the value, as errors quote it
  ConfigValue value;
  std::filesystem::path base;  ///< folder of relative paths; empty = the current one
};

struct ConfigField {
  std::string_view section;
  std::string_view key;
  std::string_view about;
  std::string rule;  ///< "an integer of 1 or more"
  /// Stores the entry's value, or throws InvalidInput naming where, value and rule.
  std::function<void(RunConfig&, const ConfigEntry&)> assign;
  /// The assignment in TOML, or "# key = example" where the field is absent in `config`.
  std::function<std::string(const RunConfig& config)> print;
};

/// In the order of the reference text; the fields of a section are neighbours.
[[nodiscard]] std::span<const ConfigField> config_fields();

}  // namespace slimpack
