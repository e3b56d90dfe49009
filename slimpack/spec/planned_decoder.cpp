// Steps:
//   1. Read the sizes that all families have, then the family's own: a layer, which layers have its
//      window, and which have experts.
//   2. Build the layers and keep each kind once.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "slimpack/spec/config_json.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

namespace {

using nlohmann::json;
using LayerTest = std::function<bool(std::size_t)>;

constexpr std::int64_t kMaxSize = kMaxPositions;  // products of two can be held against bounds

/// A model's layers, while they are read.
struct Layers {
  LayerShape dense;                   ///< with the family's dense MLP
  LayerShape sparse;                  ///< of layers with experts: their MLP
  std::vector<std::int64_t> windows;  ///< by layer; empty = none has one
  std::vector<bool> expert;           ///< by layer, whether it has experts
};

/// The fields of a config.json, with a family's defaults.
class Reader {
 public:
  Reader(const JsonFields& fields, const json& config, std::size_t layers)
      : fields_(fields), config_(config), layers_(layers) {}

  [[nodiscard]] std::int64_t size(const char* key, std::int64_t otherwise) const {
    return fields_.has(key) ? fields_.integer(key, 0, kMaxSize) : otherwise;
  }
  /// 0 where the file says null.
  [[nodiscard]] std::int64_t optional_size(const char* key, std::int64_t otherwise) const {
    return config_.contains(key) && !fields_.has(key) ? 0 : size(key, otherwise);
  }
  [[nodiscard]] bool flag(const char* key, bool otherwise = false) const {
    return fields_.has(key) ? fields_.boolean(key) : otherwise;
  }
  [[nodiscard]] bool has(const char* key) const { return fields_.has(key); }

  [[nodiscard]] std::vector<bool> layers_that(const LayerTest& test) const {
    std::vector<bool> out;
    for (std::size_t l = 0; l < layers_; ++l) out.push_back(test(l));
    return out;
  }

  /// Layers with the window that the file names: those of layer_types, else those of the family.
  void read_window(Layers& out, std::int64_t window, const LayerTest& is_windowed) const {
    out.windows = layer_windows(fields_, layers_, window, is_windowed);
  }

  void read_experts(Layers& out, std::int64_t experts, std::int64_t per_token, std::int64_t width,
                    const LayerTest& has_experts) const {
    out.sparse.experts = experts;
    out.sparse.experts_per_token = per_token;
    out.sparse.expert_width = width;
    out.expert = layers_that([&](std::size_t l) { return experts > 0 && has_experts(l); });
  }

  /// Integers of an array; none where the file has none.
  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const {
    std::vector<std::int64_t> out;
    if (!fields_.has(key)) return out;
    for (const json& value : fields_.array(key))
      out.push_back(
          json_integer(value, fmt::format("{}: {}", fields_.origin(), key), 0, INT64_MAX));
    return out;
  }

 private:
  const JsonFields& fields_;
  const json& config_;
  std::size_t layers_;
};

bool all_layers(std::size_t) {
  return true;
}

bool even_layers(std::size_t layer) {
  return layer % 2 == 0;
}

void read_biases(const Reader& in, Layers& out) {
  out.dense.qkv_bias = out.dense.output_bias = in.flag("attention_bias");
}

void read_gemma2(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.norms = 4;  // of the outputs of attention and MLP, too
  in.read_window(out, in.optional_size("sliding_window", 4096), even_layers);
}

void read_gemma3(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.norms = 4;
  out.dense.qk_norm = QkNorm::kPerHead;
  const auto period =
      static_cast<std::size_t>(std::max<std::int64_t>(1, in.size("sliding_window_pattern", 6)));
  in.read_window(out, in.optional_size("sliding_window", 4096),
                 [=](std::size_t l) { return (l + 1) % period != 0; });
}

void read_phi3(const Reader& in, Layers& out) {
  in.read_window(out, in.optional_size("sliding_window", 0), all_layers);
}

void read_mixtral(const Reader& in, Layers& out) {
  in.read_window(out, in.optional_size("sliding_window", 0), all_layers);
  in.read_experts(out, in.size("num_local_experts", 8), in.size("num_experts_per_tok", 2),
                  out.dense.dense_width, all_layers);
}

void read_qwen3_moe(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kPerHead;
  const bool used = in.flag("use_sliding_window");
  in.read_window(out, used ? in.optional_size("sliding_window", 4096) : 0, all_layers);
  const std::vector<std::int64_t> dense = in.integers("mlp_only_layers");
  const auto step =
      static_cast<std::size_t>(std::max<std::int64_t>(1, in.size("decoder_sparse_step", 1)));
  in.read_experts(out, in.size("num_experts", in.size("num_local_experts", 128)),
                  in.size("num_experts_per_tok", 8), in.size("moe_intermediate_size", 768),
                  [&](std::size_t l) {
                    return (l + 1) % step == 0 &&
                           std::ranges::find(dense, static_cast<std::int64_t>(l)) == dense.end();
                  });
}

void read_olmoe(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kWhole;
  in.read_experts(out, in.size("num_experts", 64), in.size("num_experts_per_tok", 8),
                  out.dense.dense_width, all_layers);
}

/// The first layers are dense; the others have shared experts beside those that tokens choose.
void read_shared_experts(const Reader& in, Layers& out, std::int64_t dense_layers,
                         std::int64_t experts, std::int64_t width) {
  const auto first = static_cast<std::size_t>(in.size("first_k_dense_replace", dense_layers));
  in.read_experts(out, in.size("n_routed_experts", experts), in.size("num_experts_per_tok", 8),
                  width, [=](std::size_t l) { return l >= first; });
  out.sparse.dense_width = in.size("n_shared_experts", 1) * width;
}

void read_glm4_moe(const Reader& in, Layers& out) {
  out.dense.qkv_bias = in.flag("attention_bias");
  if (in.flag("use_qk_norm")) out.dense.qk_norm = QkNorm::kPerHead;
  read_shared_experts(in, out, 1, 128, in.size("moe_intermediate_size", 1408));
}

void read_gpt_oss(const Reader& in, Layers& out) {
  out.dense.qkv_bias = out.dense.output_bias = in.flag("attention_bias", true);
  out.dense.sinks = true;
  in.read_window(out, in.optional_size("sliding_window", 128), even_layers);
  in.read_experts(out, in.size("num_local_experts", 128), in.size("num_experts_per_tok", 4),
                  out.dense.dense_width, all_layers);
  out.sparse.expert_bias = true;
}

void read_deepseek_v3(const Reader& in, Layers& out) {
  LayerShape& layer = out.dense;
  read_biases(in, out);
  layer.num_kv_heads = layer.num_heads;  // of which keys and values are made
  layer.q_rank = in.optional_size("q_lora_rank", 1536);
  layer.kv_rank = in.size("kv_lora_rank", 512);
  layer.shared_key_dim = in.size("qk_rope_head_dim", 64);
  layer.head_dim = in.size("qk_nope_head_dim", 128) + layer.shared_key_dim;
  layer.value_dim = in.size("v_head_dim", 128);
  read_shared_experts(in, out, 3, 256, in.size("moe_intermediate_size", 2048));
}

/// Defaults are those of the family's configuration class in transformers.
struct PlannedFamily {
  std::string_view model_type;
  std::string_view class_stem;
  std::int64_t default_kv_heads;  ///< 0 = as many as heads
  std::int64_t default_head_dim;  ///< 0 = hidden_size / num_attention_heads
  bool default_tied;
  void (*read)(const Reader&, Layers&);
};

constexpr std::array<PlannedFamily, 10> kFamilies{{
    {"gemma", "Gemma", 16, 256, true, read_biases},
    {"gemma2", "Gemma2", 4, 256, true, read_gemma2},
    {"gemma3_text", "Gemma3", 4, 256, true, read_gemma3},
    {"phi3", "Phi3", 0, 0, false, read_phi3},
    {"mixtral", "Mixtral", 8, 0, false, read_mixtral},
    {"qwen3_moe", "Qwen3Moe", 4, 0, false, read_qwen3_moe},
    {"olmoe", "Olmoe", 0, 0, false, read_olmoe},
    {"glm4_moe", "Glm4Moe", 8, 0, false, read_glm4_moe},
    {"gpt_oss", "GptOss", 8, 64, false, read_gpt_oss},
    {"deepseek_v3", "DeepseekV3", 0, 0, false, read_deepseek_v3},
}};

const PlannedFamily& family_of(const JsonFields& fields) {
  const auto* family =
      std::ranges::find(kFamilies, fields.text("model_type"), &PlannedFamily::model_type);
  SLIMPACK_CHECK(family != kFamilies.end());
  return *family;
}

LayerShape read_dense(const JsonFields& fields, const Reader& in, const PlannedFamily& family) {
  LayerShape layer;
  layer.hidden_size = fields.integer("hidden_size", 1, kMaxSize);
  layer.dense_width = fields.integer("intermediate_size", 1, kMaxSize);
  layer.num_heads = fields.integer("num_attention_heads", 1, kMaxSize);
  const std::int64_t kv_heads = in.optional_size("num_key_value_heads", family.default_kv_heads);
  layer.num_kv_heads = kv_heads == 0 ? layer.num_heads : kv_heads;
  const std::int64_t head_dim = in.optional_size("head_dim", family.default_head_dim);
  layer.head_dim = head_dim == 0 ? layer.hidden_size / layer.num_heads : head_dim;
  layer.value_dim = layer.head_dim;
  return layer;
}

/// The layer with its window, and with experts in place of the dense MLP where it has them.
LayerShape layer_of(const Layers& layers, std::size_t l) {
  LayerShape layer = layers.dense;
  if (!layers.windows.empty()) layer.window = layers.windows[l];
  if (layers.expert.empty() || !layers.expert[l]) return layer;
  layer.dense_width = layers.sparse.dense_width;
  layer.experts = layers.sparse.experts;
  layer.experts_per_token = layers.sparse.experts_per_token;
  layer.expert_width = layers.sparse.expert_width;
  layer.expert_bias = layers.sparse.expert_bias;
  return layer;
}

}  // namespace

std::vector<std::string_view> planned_families() {
  std::vector<std::string_view> names;
  for (const PlannedFamily& family : kFamilies) names.push_back(family.model_type);
  return names;
}

bool is_planned_family(std::string_view model_type) {
  const std::vector<std::string_view> families = planned_families();
  return std::ranges::find(families, model_type) != families.end();
}

Decoder planned_decoder_from_json(const json& config, const std::string& origin) {
  const JsonFields fields(config, origin);
  const PlannedFamily& family = family_of(fields);
  refuse_unknown_costs(config, origin, family.class_stem);
  const auto count = static_cast<std::size_t>(fields.integer("num_hidden_layers", 1, kMaxLayers));
  const Reader in(fields, config, count);
  Decoder shape;
  shape.vocab_size = fields.integer("vocab_size", 1, kMaxVocabulary);
  shape.max_positions = Tokens(fields.integer("max_position_embeddings", 1, kMaxPositions));
  shape.tie_embeddings = in.flag("tie_word_embeddings", family.default_tied);
  Layers layers;
  layers.dense = read_dense(fields, in, family);
  family.read(in, layers);
  std::vector<LayerShape> each;
  for (std::size_t l = 0; l < count; ++l) each.push_back(layer_of(layers, l));
  shape.set_layers(each);
  for (const LayerShape& layer : shape.kinds)
    if (const auto errors = layer_errors(layer); !errors.empty())
      invalid_input("{}: {}; correct the file", origin, fmt::join(errors, "; "));
  json kept = config;
  for (const char* key : {"dtype", "torch_dtype"}) kept.erase(key);  // the run's to choose
  shape.config = kept.dump();
  return shape;
}

}  // namespace slimpack
