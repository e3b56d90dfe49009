// Finds the features of a config.json that training here would silently get wrong.
#pragma once

#include <string>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

struct UnsupportedFeature {
  std::string text;           ///< field, value and feature
  bool changes_costs = true;  ///< whether it changes the time or memory of a step
};

/// All unsupported features of `config`, in a fixed order; none for a model that can be trained.
/// Throws InvalidInput for a field of the wrong type.
[[nodiscard]] std::vector<UnsupportedFeature> unsupported_features(const nlohmann::json& config,
                                                                   const std::string& origin,
                                                                   ModelFamily family);

}  // namespace slimpack
