#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/spec/model_family.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

namespace {

using nlohmann::ordered_json;

ordered_json shape_json(const ModelShape& shape, std::string_view dtype) {
  SLIMPACK_CHECK(shape_errors(shape).empty(), "{}", shape_errors(shape).front());
  const FamilyFacts& facts = facts_of(shape.family);
  ordered_json out;
  out["architectures"] = {fmt::format("{}ForCausalLM", facts.class_stem)};
  out["model_type"] = facts.model_type;
  out["hidden_size"] = shape.hidden_size;
  out["intermediate_size"] = shape.intermediate_size;
  out["num_hidden_layers"] = shape.num_layers;
  out["num_attention_heads"] = shape.num_heads;
  out["num_key_value_heads"] = shape.num_kv_heads;
  out["head_dim"] = shape.head_dim;
  out["vocab_size"] = shape.vocab_size;
  out["max_position_embeddings"] = shape.max_positions.count();
  out["hidden_act"] = "silu";
  out["rms_norm_eps"] = shape.rms_norm_eps;
  out["initializer_range"] = shape.initializer_range;
  out["tie_word_embeddings"] = shape.tie_embeddings;
  out["attention_dropout"] = 0.0;
  switch (shape.family) {
    case ModelFamily::kLlama:
      out["attention_bias"] = shape.qkv_bias;
      out["mlp_bias"] = shape.mlp_bias;
      break;
    case ModelFamily::kQwen3:
      out["attention_bias"] = shape.qkv_bias;
      [[fallthrough]];
    case ModelFamily::kQwen2:
      out["use_sliding_window"] = false;
      break;
    case ModelFamily::kMistral:
      out["sliding_window"] = nullptr;  // absent would mean 4096
      break;
  }
  // transformers 4 reads rope_theta, rope_scaling and torch_dtype, 5 reads rope_parameters (or
  // rope_scaling) and dtype; each takes the other's spelling without complaint.
  const bool scaled = shape.rope_scaling.type != RopeType::kDefault;
  out["rope_theta"] = shape.rope_theta;
  out["rope_scaling"] = nullptr;
  if (scaled) out["rope_scaling"] = rope_scaling_json(shape.rope_scaling);
  out["rope_parameters"] = scaled ? out["rope_scaling"] : ordered_json{{"rope_type", "default"}};
  out["rope_parameters"]["rope_theta"] = shape.rope_theta;
  out["torch_dtype"] = dtype;
  out["dtype"] = dtype;
  // The families' defaults (1 and 2 for Llama) would be ordinary tokens of other vocabularies.
  out["bos_token_id"] = nullptr;
  out["eos_token_id"] = nullptr;
  return out;
}

}  // namespace

std::string model_shape_to_json(const ModelShape& shape, std::string_view dtype) {
  return shape_json(shape, dtype).dump(2) + "\n";
}

std::string model_config_to_json(const ModelShape& shape, std::string_view dtype,
                                 std::string_view source) {
  ordered_json out = shape_json(shape, dtype);
  const nlohmann::json theirs = parse_json(source, "config.json");
  static_cast<void>(JsonFields(theirs, "config.json"));  // throws unless it is an object
  for (const auto& [key, value] : theirs.items()) {
    const bool token_id = key == "bos_token_id" || key == "eos_token_id";
    // transformers_version names the program that wrote the source; another one writes this file.
    if (token_id || (!out.contains(key) && key != "transformers_version")) out[key] = value;
  }
  return out.dump(2) + "\n";
}

}  // namespace slimpack
