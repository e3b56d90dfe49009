// The table of every key of the run configuration. The parser and the reference text loop over it.
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

/// All fields in the order of the reference text. Fields of one section are neighbours.
[[nodiscard]] std::span<const ConfigField> config_fields();
/// The fields of [hardware]; config_fields() includes them.
[[nodiscard]] std::vector<ConfigField> hardware_config_fields();

}  // namespace slimpack
