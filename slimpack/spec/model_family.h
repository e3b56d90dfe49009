// The differences between the supported model families, for reading and writing config.json, and
// the families of decoders that are planned but not trained here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// The defaults are those of the family's configuration class in `transformers`. They apply when
/// config.json omits the field.
struct FamilyFacts {
  ModelFamily family;
  std::string_view model_type;
  std::string_view class_stem;    ///< "Llama" of LlamaForCausalLM
  std::int64_t default_kv_heads;  ///< 0 = as many as heads
  std::int64_t default_head_dim;  ///< 0 = hidden_size / num_attention_heads
};

[[nodiscard]] std::span<const FamilyFacts> family_facts();
[[nodiscard]] const FamilyFacts& facts_of(ModelFamily family);

/// The names in model_type of the families that are planned but not trained here.
[[nodiscard]] std::vector<std::string_view> planned_families();
[[nodiscard]] bool is_planned_family(std::string_view model_type);

/// Reads a config.json of such a family.
/// Missing fields have the family's defaults in transformers. Throws InvalidInput that names
/// `origin` and the field: for sizes out of bounds, and together for all features whose cost is not
/// known (unsupported_features).
[[nodiscard]] Decoder planned_decoder_from_json(const nlohmann::json& config,
                                                const std::string& origin);

}  // namespace slimpack
