// The table of every key of the run configuration; parser and reference text are loops over it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/spec/config_values.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

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
/// Those of [hardware], for config_fields().
[[nodiscard]] std::vector<ConfigField> hardware_config_fields();

}  // namespace slimpack
