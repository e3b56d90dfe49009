#include <algorithm>
#include <array>
#include <optional>

#include <fmt/ranges.h>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/model_family.h"
#include "slimpack/spec/model_shape.h"

namespace slimpack {

namespace {

using nlohmann::json;

constexpr std::int64_t kAnySize = INT64_MAX;   // shape_errors() holds the bounds
constexpr double kDefaultRopeTheta = 10000.0;  // of all four families
constexpr std::int64_t kMistralDefaultWindow = 4096;

/// A field whose presence changes the model in a way that is not implemented here, unless its value
/// is null, false, empty or `off`.
struct Refusal {
  const char* key;
  double off;
  std::string_view feature;
};

constexpr std::array<Refusal, 13> kRefusals{{
    {"num_local_experts", 0, "mixture of experts"},
    {"num_experts", 0, "mixture of experts"},
    {"n_routed_experts", 0, "mixture of experts"},
    {"num_experts_per_tok", 0, "mixture of experts"},
    {"moe_intermediate_size", 0, "mixture of experts"},
    {"use_sliding_window", 0, "sliding-window attention"},
    {"use_bidirectional_attention", 0, "bidirectional attention"},
    {"attention_dropout", 0, "dropout"},
    {"pretraining_tp", 1, "sliced projections"},
    {"partial_rotary_factor", 1, "partial rotary embedding"},
    {"per_layer_config", 0, "layers that differ"},
    {"quantization_config", 0, "quantized weights"},
    {"auto_map", 0, "custom model code"},
}};

bool is_off(const json& value, double off) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == off;
  return value.empty();
}

void refuse_features(const json& config, const std::string& origin) {
  for (const Refusal& refusal : kRefusals) {
    const auto it = config.find(refusal.key);
    if (it != config.end() && !is_off(*it, refusal.off))
      invalid_input("{}: field \"{}\" is {}: {} is not supported; use a model without it", origin,
                    refusal.key, it->dump(), refusal.feature);
  }
  if (const auto it = config.find("is_causal"); it != config.end() && *it == false)
    invalid_input("{}: field \"is_causal\" is false: only causal models are supported", origin);
  const auto layers = config.find("layer_types");
  if (layers == config.end() || layers->is_null()) return;
  for (const json& layer : *layers)
    if (layer != "full_attention")
      invalid_input(
          "{}: field \"layer_types\" has {}: only \"full_attention\" is supported; use a model "
          "whose layers all attend to everything before them",
          origin, layer.dump());
}

const FamilyFacts& read_family(const JsonFields& fields) {
  const std::string type = fields.text("model_type");
  std::vector<std::string_view> known;
  for (const FamilyFacts& facts : family_facts()) {
    if (facts.model_type == type) return facts;
    known.push_back(facts.model_type);
  }
  const std::string_view near = nearest(type, known);
  invalid_input("{}: model_type \"{}\" is not supported; supported are {}{}", fields.origin(), type,
                fmt::join(known, ", "),
                near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}

void check_architecture(const JsonFields& fields, const FamilyFacts& facts) {
  if (!fields.has("architectures")) return;
  const std::string expected = fmt::format("{}ForCausalLM", facts.class_stem);
  const std::string headless = fmt::format("{}Model", facts.class_stem);
  for (const json& name : fields.array("architectures"))
    if (name != expected && name != headless)
      invalid_input(
          "{}: architectures names {}, a model_type \"{}\" is trained as \"{}\" here; "
          "use that model's config.json",
          fields.origin(), name.dump(), facts.model_type, expected);
}

/// A rope dictionary (rope_scaling or rope_parameters): its theta, if it has one. Everything but
/// plain rotary embeddings is refused.
std::optional<double> read_rope(const JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  const JsonFields rope = fields.object(key);
  for (const auto& [name, value] : fields.at(key).items()) {
    const bool is_type = name == "rope_type" || name == "type";
    if (is_type && !value.is_null() && value != "default")
      invalid_input("{}: {} is {}: rope scaling is not supported; use a model with \"default\"",
                    rope.origin(), name, value.dump());
    if (name == "partial_rotary_factor" && !is_off(value, 1))
      invalid_input("{}: {} is {}: partial rotary embedding is not supported; use a model with 1",
                    rope.origin(), name, value.dump());
    if (!is_type && name != "partial_rotary_factor" && name != "rope_theta")
      invalid_input(
          "{}: \"{}\" has no meaning for plain rotary embeddings; remove it or use a "
          "model without rope scaling",
          rope.origin(), name);
  }
  if (!rope.has("rope_theta")) return std::nullopt;
  return rope.number("rope_theta");
}

/// transformers 4 takes rope_theta, transformers 5 what is in the dictionaries: where a file says
/// both, they must agree, or the model would depend on who reads it.
double read_rope_theta(const JsonFields& fields) {
  std::optional<double> theta;
  if (fields.has("rope_theta")) theta = fields.number("rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<double> nested = read_rope(fields, key);
    if (nested && theta && *nested != *theta)
      invalid_input("{}: rope_theta is {} but {} says {}; make them equal", fields.origin(), *theta,
                    key, *nested);
    if (nested) theta = nested;
  }
  return theta.value_or(kDefaultRopeTheta);
}

/// Mistral's sliding window is on unless it is null; one that no sequence outgrows changes nothing.
void check_mistral_window(const json& config, const JsonFields& fields, const ModelShape& shape) {
  const bool stated = config.contains("sliding_window");
  if (stated && !fields.has("sliding_window")) return;
  const std::int64_t window =
      stated ? fields.integer("sliding_window", 1, kAnySize) : kMistralDefaultWindow;
  if (window < shape.max_positions.count())
    invalid_input(
        "{}: sliding_window is {}{}, below max_position_embeddings {}: sliding-window attention is "
        "not supported; set it to null or to max_position_embeddings",
        fields.origin(), window, stated ? "" : " by default", shape.max_positions.count());
}

void read_sizes(const json& config, const JsonFields& fields, const FamilyFacts& facts,
                ModelShape& shape) {
  shape.hidden_size = fields.integer("hidden_size", 1, kAnySize);
  shape.intermediate_size = fields.integer("intermediate_size", 1, kAnySize);
  shape.num_layers = fields.integer("num_hidden_layers", 1, kAnySize);
  shape.num_heads = fields.integer("num_attention_heads", 1, kAnySize);
  shape.vocab_size = fields.integer("vocab_size", 1, kAnySize);
  shape.max_positions = Tokens(fields.integer("max_position_embeddings", 1, kAnySize));
  if (fields.has("num_key_value_heads"))
    shape.num_kv_heads = fields.integer("num_key_value_heads", 1, kAnySize);
  else if (facts.default_kv_heads == 0 || config.contains("num_key_value_heads"))
    shape.num_kv_heads = shape.num_heads;
  else
    shape.num_kv_heads = facts.default_kv_heads;
  if (fields.has("head_dim"))
    shape.head_dim = fields.integer("head_dim", 1, kAnySize);
  else if (facts.default_head_dim > 0)
    shape.head_dim = facts.default_head_dim;
  else
    shape.head_dim = shape.hidden_size / shape.num_heads;
}

bool flag(const JsonFields& fields, const char* key) {
  return fields.has(key) && fields.boolean(key);
}

}  // namespace

ModelShape model_shape_from_json(std::string_view text, std::string_view origin) {
  const json config = parse_json(text, origin);
  const JsonFields fields(config, std::string(origin));
  const FamilyFacts& facts = read_family(fields);
  check_architecture(fields, facts);
  refuse_features(config, fields.origin());
  if (fields.has("hidden_act") && fields.text("hidden_act") != "silu")
    invalid_input("{}: hidden_act is \"{}\": only \"silu\" is supported; use a model with it",
                  origin, fields.text("hidden_act"));

  ModelShape shape;
  shape.family = facts.family;
  read_sizes(config, fields, facts, shape);
  if (fields.has("rms_norm_eps")) shape.rms_norm_eps = fields.number("rms_norm_eps");
  if (fields.has("initializer_range")) shape.initializer_range = fields.number("initializer_range");
  shape.rope_theta = read_rope_theta(fields);
  shape.tie_embeddings = flag(fields, "tie_word_embeddings");
  switch (facts.family) {
    case ModelFamily::kLlama:
      shape.qkv_bias = shape.output_bias = flag(fields, "attention_bias");
      shape.mlp_bias = flag(fields, "mlp_bias");
      break;
    case ModelFamily::kQwen2:
      shape.qkv_bias = true;
      break;
    case ModelFamily::kQwen3:
      shape.qkv_bias = shape.output_bias = flag(fields, "attention_bias");
      shape.qk_norm = true;
      break;
    case ModelFamily::kMistral:
      check_mistral_window(config, fields, shape);
      break;
  }
  if (const auto errors = shape_errors(shape); !errors.empty())
    invalid_input("{}: {}; correct the file", origin, fmt::join(errors, "; "));
  return shape;
}

ModelShape read_model_shape(const std::filesystem::path& config_json) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;  // real ones have a few kilobytes
  return model_shape_from_json(read_file(config_json, "model configuration", kMaxBytes),
                               config_json.string());
}

}  // namespace slimpack
