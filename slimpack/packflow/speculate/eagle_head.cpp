#include "slimpack/packflow/speculate/eagle_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

/// The contents of config.json.
struct HeadConfig {
  EagleHead head;  ///< without weights
  std::int64_t target_vocabulary = 0;
  bool feature_norms = false;
};

bool flag(const JsonFields& fields, const char* key) {
  return fields.has(key) && fields.boolean(key);
}

/// EAGLE-3's choice, 2, n/2 and n − 3; of targets with fewer than seven layers the second, the
/// middle and the last one.
std::vector<std::int64_t> default_feature_layers(std::int64_t layers) {
  if (layers >= 7) return {2, layers / 2, layers - 3};
  return {std::min<std::int64_t>(1, layers - 1), layers / 2, layers - 1};
}

std::vector<std::int64_t> feature_layers(const JsonFields& fields, std::int64_t layers) {
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  if (!fields.has(kKey)) return default_feature_layers(layers);
  std::vector<std::int64_t> ids;
  for (const auto& id : fields.array(kKey))
    ids.push_back(json_integer(id, fmt::format("{}: {}", fields.origin(), kKey), 0, layers - 1));
  if (ids.size() != kFeatures || !std::ranges::is_sorted(ids))
    invalid_input("{}: {} must be three layers of the target in ascending order", fields.origin(),
                  kKey);
  return ids;
}

HeadConfig read_config(const fs::path& file, const LanguageModel& target) {
  const nlohmann::json json = parse_json(read_file(file, "draft head"), file.string());
  const JsonFields fields(json, file.string());
  HeadConfig config;
  EagleHead& head = config.head;
  Decoder& shape = head.shape;
  shape.set_layers(1);
  LayerShape& layer = shape.kinds.front();
  layer.hidden_size = fields.integer("hidden_size", 1, kLargestSize);
  layer.dense_width = fields.integer("intermediate_size", 1, kLargestSize);
  layer.num_heads = fields.integer("num_attention_heads", 1, kLargestSize);
  layer.num_kv_heads = fields.integer("num_key_value_heads", 1, kLargestSize);
  layer.head_dim = layer.value_dim = fields.integer("head_dim", 1, kLargestSize);
  shape.vocab_size = fields.integer("draft_vocab_size", 1, kLargestSize);
  shape.rms_norm_eps = fields.number("rms_norm_eps");
  shape.rope_theta = fields.number("rope_theta");
  shape.max_positions = target.shape().max_positions;
  if (layer.num_heads % layer.num_kv_heads != 0 || layer.head_dim % 2 != 0)
    invalid_input("{}: key heads ({}) must divide heads ({}), and head_dim ({}) must be even",
                  fields.origin(), layer.num_kv_heads, layer.num_heads, layer.head_dim);
  config.target_vocabulary = fields.integer("vocab_size", 1, kLargestSize);
  config.feature_norms = flag(fields, "fc_norm");
  head.target_hidden_size = fields.has("target_hidden_size")
                                ? fields.integer("target_hidden_size", 1, kLargestSize)
                                : layer.hidden_size;
  head.norm_before_residual = flag(fields, "norm_before_residual");
  head.norm_output = flag(fields, "norm_output");
  head.feature_layers = feature_layers(fields, target.shape().num_layers());
  return config;
}

void require_target(const HeadConfig& config, const LanguageModel& target, const fs::path& folder) {
  const auto require = [&](const char* what, std::int64_t of_head, std::int64_t of_target) {
    if (of_head != of_target)
      invalid_input(
          "'{}' is a draft head for a model with {} {}, this one has {}; give the head of "
          "this model",
          folder.string(), what, of_head, of_target);
  };
  require("hidden_size", config.head.target_hidden_size, target.shape().hidden_size());
  require("vocab_size", config.target_vocabulary, target.shape().vocab_size);
}

using Sizes = std::map<std::string, std::vector<std::int64_t>>;

Sizes needed_tensors(const HeadConfig& config) {
  const LayerShape& s = config.head.shape.kinds.front();
  const std::int64_t h = s.hidden_size, e = config.head.target_hidden_size;
  Sizes sizes{
      {"fc.weight", {h, kFeatures * e}},
      {"midlayer.hidden_norm.weight", {h}},
      {"midlayer.input_layernorm.weight", {h}},
      {"midlayer.post_attention_layernorm.weight", {h}},
      {"midlayer.self_attn.q_proj.weight", {s.q_width(), 2 * h}},
      {"midlayer.self_attn.k_proj.weight", {s.k_width(), 2 * h}},
      {"midlayer.self_attn.v_proj.weight", {s.k_width(), 2 * h}},
      {"midlayer.self_attn.o_proj.weight", {h, s.q_width()}},
      {"midlayer.mlp.gate_proj.weight", {s.dense_width, h}},
      {"midlayer.mlp.up_proj.weight", {s.dense_width, h}},
      {"midlayer.mlp.down_proj.weight", {h, s.dense_width}},
      {"norm.weight", {h}},
      {"lm_head.weight", {config.head.shape.vocab_size, h}},
      {"d2t", {config.head.shape.vocab_size}},
  };
  if (config.feature_norms)
    for (std::int64_t i = 0; i < kFeatures; ++i) sizes[fmt::format("fc_norm.{}.weight", i)] = {e};
  return sizes;
}

void require_tensors(const NamedTensors& tensors, const HeadConfig& config,
                     const fs::path& folder) {
  for (const auto& [name, sizes] : needed_tensors(config)) {
    const auto found = tensors.find(name);
    if (found == tensors.end())
      invalid_input(
          "'{}' has no tensor {}; make EAGLE-3's form of the head with 'slimpack draft "
          "convert'",
          folder.string(), name);
    if (found->second.sizes() != at::IntArrayRef(sizes))
      invalid_input("'{}': tensor {} has sizes [{}], config.json asks for [{}]", folder.string(),
                    name, fmt::join(found->second.sizes(), ", "), fmt::join(sizes, ", "));
  }
}

/// The target's token of each guess: d2t holds the number to be added.
std::vector<std::int64_t> target_tokens(const at::Tensor& d2t, std::int64_t vocabulary,
                                        const fs::path& folder) {
  const at::Tensor added = d2t.to(at::kLong).contiguous();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(added.numel()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int64_t>(i) + added.const_data_ptr<std::int64_t>()[i];
    if (tokens[i] < 0 || tokens[i] >= vocabulary)
      invalid_input("'{}': d2t names token {}, the model has {}; take another copy of the head",
                    folder.string(), tokens[i], vocabulary);
  }
  return tokens;
}

}  // namespace

EagleHead load_eagle_head(const fs::path& folder, const LanguageModel& target) {
  if (!target.device().is_cpu())
    invalid_input(
        "'{}' guesses on a CPU alone, but the model is on {}; take device \"cpu\" or draft "
        "\"ngram\"",
        folder.string(), target.device().str());
  HeadConfig config = read_config(folder / kConfigFile, target);
  require_target(config, target, folder);
  const NamedTensors tensors = read_model_tensors(folder);
  require_tensors(tensors, config, folder);
  EagleHead head = std::move(config.head);
  const Dtype dtype = target.dtype();
  const at::Device device = target.device();
  const auto norm = [&](const std::string& name) {
    return summable_weight(tensors.at(name), dtype, device);
  };
  const auto matrix = [&](const std::string& name) {
    return DecoderMatrix({tensors.at(name)}, dtype, device);
  };
  if (config.feature_norms)
    for (std::int64_t i = 0; i < kFeatures; ++i)
      head.feature_norms_H.push_back(norm(fmt::format("fc_norm.{}.weight", i)));
  head.combine = matrix("fc.weight");
  head.hidden_norm_H = norm("midlayer.hidden_norm.weight");
  head.layer = layer_weights(tensors, "midlayer.", dtype, device);
  head.final_norm_H = norm("norm.weight");
  head.head = matrix("lm_head.weight");
  if (tensors.contains("embed_tokens.weight")) {
    head.embedding = matrix("embed_tokens.weight");
  } else if (head.shape.hidden_size() != target.shape().hidden_size()) {
    invalid_input(
        "'{}' has no embed_tokens, and its hidden_size {} is not the model's {}; take a "
        "complete head",
        folder.string(), head.shape.hidden_size(), target.shape().hidden_size());
  }
  head.target_tokens = target_tokens(tensors.at("d2t"), target.shape().vocab_size, folder);
  return head;
}

}  // namespace slimpack
