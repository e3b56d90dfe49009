#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

namespace {

using nlohmann::ordered_json;

/// A window of all layers.
void write_window(const LayerShape& layer, ordered_json& out) {
  out["sliding_window"] = nullptr;  // absent would mean 4096 for some
  if (layer.window > 0) out["sliding_window"] = layer.window;
}

void write_experts(const LayerShape& layer, ordered_json& out) {
  out["num_experts"] = layer.experts;
  out["num_experts_per_tok"] = layer.experts_per_token;
  out["norm_topk_prob"] = layer.norm_topk_prob;
  out["attention_bias"] = layer.qkv_bias;
}

/// Qwen's fields of windows. Releases of transformers without layer_types know the first layer
/// alone.
void write_windows(const Decoder& decoder, ordered_json& out) {
  const auto windowed = [&](std::uint8_t kind) { return decoder.kinds[kind].window > 0; };
  const auto& layers = decoder.kind_of_layer;
  const auto first = std::ranges::find_if(layers, windowed);
  out["use_sliding_window"] = first != layers.end();
  out["layer_types"] = ordered_json::array();
  for (const std::uint8_t kind : layers)
    out["layer_types"].push_back(windowed(kind) ? "sliding_attention" : "full_attention");
  if (first == layers.end()) return;
  out["sliding_window"] = decoder.kinds[*first].window;
  out["max_window_layers"] = first - layers.begin();
}

/// The fields that only some families have.
void write_family(const Decoder& decoder, ordered_json& out) {
  const LayerShape& layer = decoder.kinds.front();
  switch (decoder.family) {
    case ModelFamily::kLlama:
      out["attention_bias"] = layer.qkv_bias;
      out["mlp_bias"] = layer.mlp_bias;
      break;
    case ModelFamily::kQwen3:
      out["attention_bias"] = layer.qkv_bias;
      [[fallthrough]];
    case ModelFamily::kQwen2:
      write_windows(decoder, out);
      break;
    case ModelFamily::kMistral:
      write_window(layer, out);
      break;
    case ModelFamily::kMixtral:
      write_window(layer, out);
      out["num_local_experts"] = layer.experts;
      out["num_experts_per_tok"] = layer.experts_per_token;
      break;
    case ModelFamily::kQwen3Moe:
      write_window(layer, out);
      out["use_sliding_window"] = layer.window > 0;
      out["moe_intermediate_size"] = layer.expert_width;
      out["decoder_sparse_step"] = 1;
      [[fallthrough]];
    case ModelFamily::kOlmoe:
      write_experts(layer, out);
      break;
  }
}

ordered_json shape_json(const Decoder& decoder, std::string_view dtype) {
  SLIMPACK_CHECK(decoder_errors(decoder).empty(), "{}", decoder_errors(decoder).front());
  const FamilyFacts& facts = facts_of(decoder.family);
  const LayerShape& layer = decoder.kinds.front();
  ordered_json out;
  out["architectures"] = {fmt::format("{}ForCausalLM", facts.class_stem)};
  out["model_type"] = facts.model_type;
  out["hidden_size"] = layer.hidden_size;
  out["intermediate_size"] = facts.experts ? layer.expert_width : layer.dense_width;
  out["num_hidden_layers"] = decoder.num_layers();
  out["num_attention_heads"] = layer.num_heads;
  out["num_key_value_heads"] = layer.num_kv_heads;
  out["head_dim"] = layer.head_dim;
  out["vocab_size"] = decoder.vocab_size;
  out["max_position_embeddings"] = decoder.max_positions.count();
  out["hidden_act"] = "silu";
  out["rms_norm_eps"] = decoder.rms_norm_eps;
  out["initializer_range"] = decoder.initializer_range;
  out["tie_word_embeddings"] = decoder.tie_embeddings;
  out["attention_dropout"] = 0.0;
  write_family(decoder, out);
  // transformers 4 reads rope_theta, rope_scaling and torch_dtype, 5 reads rope_parameters (or
  // rope_scaling) and dtype; each takes the other's spelling without complaint.
  const bool scaled = decoder.rope_scaling.type != RopeType::kDefault;
  out["rope_theta"] = decoder.rope_theta;
  out["rope_scaling"] = nullptr;
  if (scaled) out["rope_scaling"] = rope_scaling_json(decoder.rope_scaling);
  out["rope_parameters"] = scaled ? out["rope_scaling"] : ordered_json{{"rope_type", "default"}};
  out["rope_parameters"]["rope_theta"] = decoder.rope_theta;
  out["torch_dtype"] = dtype;
  out["dtype"] = dtype;
  // The families' defaults (1 and 2 for Llama) would be ordinary tokens of other vocabularies.
  out["bos_token_id"] = nullptr;
  out["eos_token_id"] = nullptr;
  return out;
}

}  // namespace

std::string decoder_to_json(const Decoder& decoder, std::string_view dtype) {
  if (decoder.config.empty()) return json_text(shape_json(decoder, dtype), 2) + "\n";
  nlohmann::json config = parse_json(decoder.config, "model");
  config["dtype"] = config["torch_dtype"] = dtype;
  return json_text(config, 2) + "\n";
}

std::string model_config_to_json(const Decoder& decoder, std::string_view dtype,
                                 std::string_view source) {
  ordered_json out = shape_json(decoder, dtype);
  const nlohmann::json theirs = parse_python_json(source, "config.json");
  static_cast<void>(JsonFields(theirs, "config.json"));  // throws unless it is an object
  for (const auto& [key, value] : theirs.items()) {
    const bool token_id = key == "bos_token_id" || key == "eos_token_id";
    // Qwen3-MoE's is that of dense layers, of which a model that is trained here has none.
    const bool unused = key == "intermediate_size" && decoder.family == ModelFamily::kQwen3Moe;
    // transformers_version names the program that wrote the source; another one writes this file.
    if (token_id || unused || (!out.contains(key) && key != "transformers_version"))
      out[key] = value;
  }
  return json_text(out, 2) + "\n";
}

}  // namespace slimpack
