// Finds the features of a config.json that training here would silently get wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/decoder.h"

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

/// For models that are planned but not trained: throws InvalidInput that names all features whose
/// cost is not known. `class_stem`: "Gemma2" of Gemma2ForCausalLM.
void refuse_unknown_costs(const nlohmann::json& config, const std::string& origin,
                          std::string_view class_stem);

/// The features that a config.json asks for beyond the decoder that is planned, for models that are
/// planned but not trained.
[[nodiscard]] std::vector<std::string> features_left_out(const nlohmann::json& config);

}  // namespace slimpack
