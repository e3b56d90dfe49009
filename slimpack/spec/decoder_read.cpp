#include <algorithm>
#include <array>
#include <optional>

#include <fmt/ranges.h>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/nearest.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/family_reader.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

namespace {

using nlohmann::json;

constexpr std::int64_t kAnySize = INT64_MAX;  // decoder_errors() holds the bounds

/// Names of other architectures that resemble ours. They are no misspellings.
constexpr std::array<std::string_view, 23> kLookalikes{
    "afmoe",     "flava",      "llama4",   "llava",        "ministral", "ministral3",
    "mistral3",  "mistral4",   "mllama",   "molmo2",       "olmo",      "olmo2",
    "olmo3",     "pixtral",    "qwen",     "qwen2_moe",    "qwen3_5",   "qwen3_5_moe",
    "qwen3_asr", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "voxtral"};

/// Whether layers of the family hand on states: slimpack.torch.pipeline trains them.
bool has_states(std::string_view type) {
  return std::ranges::find(state_families(), type, &PlannedFamily::model_type) !=
         state_families().end();
}

bool is_trained_family(std::string_view type) {
  return std::ranges::find(family_facts(), type, &FamilyFacts::model_type) != family_facts().end();
}

/// The family of a model's language model; empty where the file says none.
std::string family_of_text(const JsonFields& fields, const json& config) {
  const json part = language_part(config);
  const JsonFields text(part, fields.origin() + ": text_config");
  return text.has("model_type") ? text.text("model_type") : "";
}

/// Whether the language model is of a family that is planned, and the file has another model_type.
bool has_planned_text(const JsonFields& fields, const json& config) {
  const std::string family = family_of_text(fields, config);
  return family != fields.text("model_type") &&
         (is_planned_family(family) || is_trained_family(family));
}

/// `planned`: model types that are read, too, where steps are only planned.
const FamilyFacts& read_family(const JsonFields& fields, const json& config,
                               const std::vector<std::string_view>& planned = {}) {
  const std::string type = fields.text("model_type");
  std::vector<std::string_view> known;
  for (const FamilyFacts& facts : family_facts()) {
    if (facts.model_type == type) return facts;
    known.push_back(facts.model_type);
  }
  if (is_planned_family(type) || has_planned_text(fields, config))
    invalid_input(
        "{}: model_type \"{}\" is not supported; supported are {}; fit, plan and compare take it{}",
        fields.origin(), type, fmt::join(known, ", "),
        has_states(type) || has_states(family_of_text(fields, config))
            ? ", slimpack.torch.pipeline trains it"
            : "");
  const bool other = std::ranges::find(kLookalikes, type) != kLookalikes.end();
  std::string remedy;
  if (!planned.empty()) remedy = fmt::format(" and, to plan, {}", fmt::join(planned, ", "));
  std::vector<std::string_view> all = known;
  all.insert(all.end(), planned.begin(), planned.end());
  const std::string_view near = other ? "" : nearest(type, all);
  if (!near.empty()) remedy += fmt::format("; did you mean \"{}\"?", near);
  invalid_input("{}: model_type \"{}\" is not supported; supported are {}{}", fields.origin(), type,
                fmt::join(known, ", "), remedy);
}

/// transformers 4 reads rope_theta, and transformers 5 reads the dictionaries. If a file has both,
/// they must agree; otherwise the model would depend on its reader.
double read_rope_theta(const JsonFields& fields, double otherwise) {
  std::optional<double> theta;
  if (fields.has("rope_theta")) theta = fields.number("rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    const JsonFields rope = fields.object(key);
    if (!rope.has("rope_theta")) continue;
    const double nested = rope.number("rope_theta");
    if (theta && nested != *theta)
      invalid_input("{}: rope_theta is {} but {} says {}; make them equal", fields.origin(), *theta,
                    key, nested);
    theta = nested;
  }
  return theta.value_or(otherwise);
}

/// transformers 4 takes rope_scaling, transformers 5 that or rope_parameters. Types that cannot be
/// trained count as none; their names are told apart from the shape.
RopeScaling read_rope(const JsonFields& fields, std::int64_t max_positions) {
  std::optional<RopeScaling> scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key) || fields.at(key).empty()) continue;
    const JsonFields rope = fields.object(key);
    if (!is_rope_type(rope_type_of(rope))) return {};
    const RopeScaling own = read_rope_scaling(rope, max_positions);
    if (scaling && *scaling != own)
      invalid_input("{}: rope_scaling and rope_parameters differ; make them equal",
                    fields.origin());
    scaling = own;
  }
  return scaling.value_or(RopeScaling());
}

LayerShape read_layer(const json& config, const JsonFields& fields, const FamilyFacts& facts) {
  LayerShape layer;
  layer.hidden_size = fields.integer("hidden_size", 1, kAnySize);
  layer.dense_width = fields.integer("intermediate_size", 1, kAnySize);
  layer.num_heads = fields.integer("num_attention_heads", 1, kAnySize);
  if (fields.has("num_key_value_heads"))
    layer.num_kv_heads = fields.integer("num_key_value_heads", 1, kAnySize);
  else if (facts.default_kv_heads == 0 || config.contains("num_key_value_heads"))
    layer.num_kv_heads = layer.num_heads;
  else
    layer.num_kv_heads = facts.default_kv_heads;
  if (fields.has("head_dim"))
    layer.head_dim = fields.integer("head_dim", 1, kAnySize);
  else if (facts.default_head_dim > 0)
    layer.head_dim = facts.default_head_dim;
  else
    layer.head_dim = layer.hidden_size / layer.num_heads;
  layer.value_dim = layer.head_dim;
  return layer;
}

std::string read_text(const std::filesystem::path& config_json) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;  // real ones have a few kilobytes
  return read_file(config_json, "model configuration", kMaxBytes);
}

bool flag(const JsonFields& fields, const char* key) {
  return fields.has(key) && fields.boolean(key);
}

/// Throws InvalidInput naming all features, if there are any.
void refuse(const std::vector<UnsupportedFeature>& features, const std::string& origin) {
  if (features.empty()) return;
  std::vector<std::string_view> texts;
  for (const UnsupportedFeature& feature : features) texts.push_back(feature.text);
  const bool measurable = std::ranges::none_of(features, &UnsupportedFeature::changes_costs);
  invalid_input("{}: {}; this version cannot train such a model, use one without {}{}", origin,
                fmt::join(texts, ", "), texts.size() == 1 ? "that" : "any of these",
                measurable ? " (profile, fit, plan and compare take it)" : "");
}

void read_biases_and_norms(const JsonFields& fields, ModelFamily family, LayerShape& layer) {
  switch (family) {
    case ModelFamily::kLlama:
      layer.qkv_bias = layer.output_bias = flag(fields, "attention_bias");
      layer.mlp_bias = flag(fields, "mlp_bias");
      break;
    case ModelFamily::kQwen2:
      layer.qkv_bias = true;
      break;
    case ModelFamily::kQwen3:
      layer.qkv_bias = layer.output_bias = flag(fields, "attention_bias");
      layer.qk_norm = QkNorm::kPerHead;
      break;
    case ModelFamily::kMistral:
    case ModelFamily::kMixtral:
    case ModelFamily::kQwen3Moe:
    case ModelFamily::kOlmoe:
      break;
  }
}

/// The layers without their windows.
std::vector<LayerShape> read_layers(const json& config, const JsonFields& fields,
                                    const FamilyFacts& facts) {
  std::vector<LayerShape> layers;
  if (facts.experts) {
    const Decoder planned = planned_decoder_from_json(config, fields.origin());
    for (const std::uint8_t kind : planned.kind_of_layer) layers.push_back(planned.kinds[kind]);
    return layers;
  }
  LayerShape layer = read_layer(config, fields, facts);
  read_biases_and_norms(fields, facts.family, layer);
  layers.assign(static_cast<std::size_t>(fields.integer("num_hidden_layers", 1, kMaxLayers)),
                layer);
  return layers;
}

Decoder read_shape(const json& config, const JsonFields& fields, const FamilyFacts& facts) {
  Decoder decoder;
  decoder.family = facts.family;
  std::vector<LayerShape> layers = read_layers(config, fields, facts);
  const std::vector<std::int64_t> windows =
      layer_windows(config, fields, layers.size(), facts.family);
  for (std::size_t l = 0; l < layers.size(); ++l) layers[l].window = windows[l];
  decoder.set_layers(layers);
  decoder.vocab_size = fields.integer("vocab_size", 1, kAnySize);
  decoder.max_positions = Tokens(fields.integer("max_position_embeddings", 1, kAnySize));
  decoder.rms_norm_eps = facts.default_eps;
  if (fields.has("rms_norm_eps")) decoder.rms_norm_eps = fields.number("rms_norm_eps");
  if (fields.has("initializer_range"))
    decoder.initializer_range = fields.number("initializer_range");
  decoder.rope_theta = read_rope_theta(fields, facts.default_rope_theta);
  decoder.rope_scaling = read_rope(fields, decoder.max_positions.count());
  decoder.tie_embeddings = flag(fields, "tie_word_embeddings");
  if (const auto errors = decoder_errors(decoder); !errors.empty())
    invalid_input("{}: {}; correct the file", fields.origin(), fmt::join(errors, "; "));
  return decoder;
}

/// A model of a family that is planned but not trained here.
PlannableModel planned_model_of(const json& config, const std::string& origin) {
  PlannableModel model{.shape = planned_decoder_from_json(config, origin),
                       .untrainable = features_left_out(config)};
  model.untrainable.insert(
      model.untrainable.begin(),
      fmt::format("model_type is \"{}\"", config.at("model_type").get<std::string>()));
  return model;
}

/// A model that is more than a language model, or has another name, planned as that.
PlannableModel planned_text_of(const json& config, const JsonFields& fields) {
  const std::string family = family_of_text(fields, config);
  const bool inner = fields.has("text_config");
  PlannableModel model = plannable_model_from_json(
      json_text(language_part(config)), fields.origin() + (inner ? ": text_config" : ""));
  if (!is_trained_family(family)) model.untrainable.erase(model.untrainable.begin());  // its type
  model.untrainable.insert(
      model.untrainable.begin(),
      fmt::format("model_type is \"{}\" (planned is {})", fields.text("model_type"),
                  inner ? "its text_config" : fmt::format("a language model like {}", family)));
  return model;
}

}  // namespace

Decoder decoder_from_json(std::string_view text, std::string_view origin) {
  const json config = parse_python_json(text, origin);
  const JsonFields fields(config, std::string(origin));
  const FamilyFacts& facts = read_family(fields, config);
  refuse(unsupported_features(config, fields.origin(), facts.family), fields.origin());
  return read_shape(config, fields, facts);
}

PlannableModel plannable_model_from_json(std::string_view text, std::string_view origin) {
  const json config = parse_python_json(text, origin);
  const JsonFields fields(config, std::string(origin));
  const std::string type = fields.text("model_type");
  const auto facts_of_type = std::ranges::find(family_facts(), type, &FamilyFacts::model_type);
  const bool trained = facts_of_type != family_facts().end();
  if (!trained && !is_planned_family(type) && has_planned_text(fields, config))
    return planned_text_of(config, fields);
  std::vector<UnsupportedFeature> features;
  if (trained) features = unsupported_features(config, fields.origin(), facts_of_type->family);
  if (is_planned_family(type) && !(trained && features.empty())) {
    PlannableModel model = planned_model_of(config, fields.origin());
    if (!trained) return model;
    model.untrainable.clear();
    for (const UnsupportedFeature& feature : features) model.untrainable.push_back(feature.text);
    return model;
  }
  PlannableModel model;
  const FamilyFacts& facts = read_family(fields, config, planned_families());
  for (const UnsupportedFeature& feature : features) {
    if (feature.changes_costs) refuse(features, fields.origin());
    model.untrainable.push_back(feature.text);
  }
  model.shape = read_shape(config, fields, facts);
  return model;
}

Decoder read_decoder(const std::filesystem::path& config_json) {
  return decoder_from_json(read_text(config_json), config_json.string());
}

Decoder read_generating_decoder(const std::filesystem::path& config_json) {
  Decoder decoder = read_decoder(config_json);
  if (facts_of(decoder.family).experts)
    invalid_input(
        "{}: model_type is \"{}\", but this version generates with models without experts alone; "
        "transformers and vLLM generate with the folder as it is",
        config_json.string(), to_string(decoder.family));
  return decoder;
}

PlannableModel read_plannable_model(const std::filesystem::path& config_json) {
  return plannable_model_from_json(read_text(config_json), config_json.string());
}

}  // namespace slimpack
