// Small config.json texts of each family, to be bent by tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "slimpack/spec/decoder.h"

namespace slimpack {

/// A valid small model of the family, without any optional field but what keeps it valid.
inline nlohmann::json small_config(const std::string& model_type) {
  nlohmann::json config{{"model_type", model_type}, {"hidden_size", 64},
                        {"intermediate_size", 176}, {"num_hidden_layers", 3},
                        {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                        {"vocab_size", 97},         {"max_position_embeddings", 512}};
  return config;
}

inline Decoder shape_of(const nlohmann::json& config) {
  return decoder_from_json(config.dump(), "config.json");
}

}  // namespace slimpack
