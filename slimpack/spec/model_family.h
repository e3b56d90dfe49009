// The differences between the supported model families, for reading and writing config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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

}  // namespace slimpack
