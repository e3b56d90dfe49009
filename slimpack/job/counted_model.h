// A model that a run's cost file has counted, because nobody knows the shape of its layers.
#pragma once

#include <optional>
#include <string_view>

#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The model of the cost file, if that is of layers under autograd; nothing otherwise. Throws
/// InvalidInput as planned_model, and where the model's config.json disagrees with that in the cost
/// file about a field that both have and that may change costs.
[[nodiscard]] std::optional<PlannableModel> counted_model(const RunConfig& config);
/// The model of the cost file, compared with this text of a config.json. Throws as the function
/// above.
[[nodiscard]] std::optional<PlannableModel> counted_model(const RunConfig& config,
                                                          std::string_view config_json);

}  // namespace slimpack
