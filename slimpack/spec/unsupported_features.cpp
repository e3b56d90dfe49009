
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/rope_scaling.h"

namespace slimpack {

namespace {

using nlohmann::json;
using Features = std::vector<UnsupportedFeature>;

constexpr std::size_t kMostQuoted = 40;  // characters of a value; some have many lines

/// A field that requests `feature`, unless its value is null, false, empty or `off`.
struct FeatureField {
  const char* key;
  double off;
  std::string_view feature;
};

/// In families without experts.
constexpr std::array<FeatureField, 5> kExpertFields{{
    {"num_local_experts", 0, "mixture of experts"},
    {"num_experts", 0, "mixture of experts"},
    {"n_routed_experts", 0, "mixture of experts"},
    {"num_experts_per_tok", 0, "mixture of experts"},
    {"moe_intermediate_size", 0, "mixture of experts"},
}};

/// In families with experts.
constexpr std::array<FeatureField, 5> kRoutingFields{{
    {"output_router_logits", 0,
     "load-balancing loss, which slimpack.torch.pipeline trains; false trains without it"},
    {"router_jitter_noise", 0, "noise in routers; 0 trains without it"},
    {"mlp_only_layers", 0, "layers that differ"},
    {"decoder_sparse_step", 1, "layers that differ"},
    {"clip_qkv", 0, "clipped queries and keys"},
}};

constexpr std::array<FeatureField, 7> kFeatureFields{{
    {"use_bidirectional_attention", 0, "bidirectional attention"},
    {"attention_dropout", 0, "dropout; 0 trains without it"},
    {"pretraining_tp", 1, "sliced projections; 1 is the same model"},
    {"partial_rotary_factor", 1, "partial rotary embedding"},
    {"per_layer_config", 0, "layers that differ"},
    {"quantization_config", 0, "quantized weights"},
    {"auto_map", 0, "custom model code"},
}};

/// Features whose cost is not known, in models that are planned but not trained.
constexpr std::array<FeatureField, 8> kUnknownCosts{{
    {"attention_dropout", 0, "dropout"},
    {"resid_pdrop", 0, "dropout"},
    {"embd_pdrop", 0, "dropout"},
    {"use_bidirectional_attention", 0, "bidirectional attention"},
    {"pretraining_tp", 1, "sliced projections"},
    {"moe_layer_freq", 1, "layers that differ"},
    {"per_layer_config", 0, "layers that differ"},
    {"clip_qkv", 0, "clipped queries and keys"},
}};

bool is_off(const json& value, double off) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == off;
  return value.empty();
}

std::string value_text(const json& value) {
  const std::string text = json_text(value);
  return text.size() <= kMostQuoted ? text : "set";
}

void add_field(const json& config, const FeatureField& field, Features& found) {
  const auto it = config.find(field.key);
  if (it != config.end() && !is_off(*it, field.off))
    found.push_back({fmt::format("{} is {} ({})", field.key, value_text(*it), field.feature)});
}

void add_fields(const json& config, std::span<const FeatureField> fields, Features& found) {
  for (const FeatureField& field : fields) add_field(config, field, found);
  if (const auto it = config.find("is_causal"); it != config.end() && *it == false)
    found.push_back({"is_causal is false (only causal models are trained)"});
}

void add_activation(const JsonFields& fields, Features& found) {
  if (fields.has("hidden_act") && fields.text("hidden_act") != "silu")
    found.push_back({fmt::format("hidden_act is \"{}\" (only \"silu\" is trained)",
                                 fields.text("hidden_act"))});
}

/// Finds models with another head, say a classifier's.
void add_architecture(const JsonFields& fields, std::string_view stem, Features& found) {
  if (!fields.has("architectures")) return;
  const std::string expected = fmt::format("{}ForCausalLM", stem);
  const std::string headless = fmt::format("{}Model", stem);
  for (const json& name : fields.array("architectures"))
    if (name != expected && name != headless)
      found.push_back(
          {fmt::format("architectures has {} (only {} is trained)", value_text(name), expected)});
}

/// Qwen's code in transformers follows layer_types; that of the other families does not.
void add_layer_types(const json& config, ModelFamily family, Features& found) {
  if (family == ModelFamily::kQwen2 || family == ModelFamily::kQwen3) return;
  const auto layers = config.find("layer_types");
  if (layers == config.end() || layers->is_null()) return;
  for (const json& layer : *layers)
    if (layer != "full_attention") {
      found.push_back({fmt::format("layer_types has {} (only \"full_attention\" is trained)",
                                   value_text(layer))});
      return;
    }
}

/// Finds the features of a rope dictionary (rope_scaling or rope_parameters). Rope scaling changes
/// the model but not its costs.
void add_rope(const JsonFields& fields, const char* key, Features& found) {
  if (!fields.has(key)) return;
  const JsonFields rope = fields.object(key);
  const std::string type = rope_type_of(rope);
  const bool known = is_rope_type(type);
  if (!known)
    found.push_back({fmt::format("{} has {} {} (rope scaling)", key,
                                 rope.has("rope_type") ? "rope_type" : "type", value_text(type)),
                     false});
  std::vector<std::string_view> plain{"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  if (known) std::ranges::copy(rope_keys(type), std::back_inserter(plain));
  for (const auto& [name, value] : fields.at(key).items()) {
    if (name == "partial_rotary_factor" && !is_off(value, 1))
      found.push_back(
          {fmt::format("{} has {} {} (partial rotary embedding)", key, name, value_text(value))});
    // Other keys of a type that is named already belong to it.
    if (known && std::ranges::find(plain, name) == plain.end())
      found.push_back({fmt::format("{} has {} (rope scaling)", key, value_text(name)), false});
  }
}

}  // namespace

Features unsupported_features(const json& config, const std::string& origin, ModelFamily family) {
  const JsonFields fields(config, origin);
  Features found;
  add_architecture(fields, facts_of(family).class_stem, found);
  if (facts_of(family).experts)
    add_fields(config, kRoutingFields, found);
  else
    add_fields(config, kExpertFields, found);
  add_fields(config, kFeatureFields, found);
  add_activation(fields, found);
  add_layer_types(config, family, found);
  for (const char* key : {"rope_scaling", "rope_parameters"}) add_rope(fields, key, found);
  return found;
}

void refuse_unknown_costs(const json& config, const std::string& origin,
                          std::string_view class_stem) {
  const JsonFields fields(config, origin);
  Features found;
  add_architecture(fields, class_stem, found);
  add_fields(config, kUnknownCosts, found);
  if (found.empty()) return;
  std::vector<std::string_view> texts;
  for (const UnsupportedFeature& feature : found) texts.push_back(feature.text);
  invalid_input("{}: {}; the cost of that is not known, use a model without", origin,
                fmt::join(texts, ", "));
}

std::vector<std::string> features_left_out(const json& config) {
  constexpr std::array<FeatureField, 3> kLeftOut{{
      {"quantization_config", 0, "planned in train.dtype"},
      {"num_nextn_predict_layers", 0, "planned without these layers"},
      {"num_mtp_layers", 0, "planned without these layers"},
  }};
  Features found;
  for (const FeatureField& field : kLeftOut) add_field(config, field, found);
  std::vector<std::string> texts;
  for (UnsupportedFeature& feature : found) texts.push_back(std::move(feature.text));
  return texts;
}

}  // namespace slimpack
