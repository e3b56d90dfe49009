// Families of decoders that are planned but not trained here; used by the readers of config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// Their names in model_type.
[[nodiscard]] std::vector<std::string_view> planned_families();
[[nodiscard]] bool is_planned_family(std::string_view model_type);

/// Reads a config.json of such a family.
/// Missing fields have the family's defaults in transformers. Throws InvalidInput that names
/// `origin` and the field: for sizes out of bounds, and together for all features whose cost is not
/// known (unsupported_features).
[[nodiscard]] Decoder planned_decoder_from_json(const nlohmann::json& config,
                                                const std::string& origin);

}  // namespace slimpack
