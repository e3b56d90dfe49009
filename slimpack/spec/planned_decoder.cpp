// Steps:
//   1. Read the sizes that all families have, then the family's own: a layer, which layers have its
//      window, and which have experts or states.
//   2. Build the layers and keep each kind once.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/family_reader.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

namespace {

using nlohmann::json;
using Reader = FamilyReader;

bool all_layers(std::size_t) {
  return true;
}

bool even_layers(std::size_t layer) {
  return layer % 2 == 0;
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
  out.sparse.norm_topk_prob = true;
}

void read_qwen3_moe(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kPerHead;
  const bool used = in.flag("use_sliding_window");
  in.read_window(out, used ? in.optional_size("sliding_window", 4096) : 0, all_layers);
  in.read_experts(out, in.size({"num_experts", "num_local_experts"}, 128),
                  in.size("num_experts_per_tok", 8), in.size("moe_intermediate_size", 768),
                  sparse_steps(in));
  out.sparse.norm_topk_prob = in.flag("norm_topk_prob");
}

void read_olmoe(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kWhole;
  in.read_experts(out, in.size({"num_experts", "num_local_experts"}, 64),
                  in.size("num_experts_per_tok", 8), out.dense.dense_width, all_layers);
  out.sparse.norm_topk_prob = in.flag("norm_topk_prob");
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
  read_biases(in, out);
  read_latents(in, out, in.optional_size("q_lora_rank", 1536));
  read_shared_experts(in, out, 3, 256, in.size("moe_intermediate_size", 2048));
}

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

std::vector<PlannedFamily> all_families() {
  std::vector<PlannedFamily> all(kFamilies.begin(), kFamilies.end());
  all.insert(all.end(), state_families().begin(), state_families().end());
  return all;
}

PlannedFamily family_of(const JsonFields& fields) {
  const std::vector<PlannedFamily> all = all_families();
  const auto family = std::ranges::find(all, fields.text("model_type"), &PlannedFamily::model_type);
  SLIMPACK_CHECK(family != all.end());
  return *family;
}

/// Newer files of Nemotron-H say it by the number of their types alone.
std::size_t layer_count(const JsonFields& fields) {
  constexpr const char* kKey = "num_hidden_layers";
  if (fields.has(kKey) || fields.text("model_type") != "nemotron_h")
    return static_cast<std::size_t>(fields.integer(kKey, 1, kMaxLayers));
  std::size_t layers = 0;
  if (fields.has("hybrid_override_pattern")) layers = fields.text("hybrid_override_pattern").size();
  for (const char* key : {"layer_types", "layers_block_type"})
    if (fields.has(key)) layers = fields.array(key).size();
  return static_cast<std::size_t>(json_integer(
      layers, fmt::format("{}: the number of types in layers_block_type", fields.origin()), 1,
      kMaxLayers));
}

std::int64_t positions_of(const JsonFields& fields, std::int64_t otherwise) {
  for (const char* key : {"max_position_embeddings", "model_max_length"})
    if (fields.has(key)) return fields.integer(key, 1, kMaxPositions);
  return otherwise > 0 ? otherwise : fields.integer("max_position_embeddings", 1, kMaxPositions);
}

/// A size that a family has: what the file says, else its default; 0 where it has none.
std::int64_t size_of(const JsonFields& fields, const char* key, std::int64_t otherwise) {
  if (otherwise == PlannedFamily::kNone) return 0;
  return fields.has(key) || otherwise == 0 ? fields.integer(key, 1, Reader::kMaxSize) : otherwise;
}

LayerShape read_dense(const JsonFields& fields, const Reader& in, const PlannedFamily& family) {
  LayerShape layer;
  layer.hidden_size = fields.integer("hidden_size", 1, Reader::kMaxSize);
  layer.dense_width = size_of(fields, "intermediate_size", family.default_width);
  layer.num_heads = size_of(fields, "num_attention_heads", family.default_heads);
  if (!layer.attends()) return layer;
  const std::int64_t kv_heads = in.optional_size("num_key_value_heads", family.default_kv_heads);
  layer.num_kv_heads = kv_heads == 0 ? layer.num_heads : kv_heads;
  const std::int64_t head_dim = in.optional_size("head_dim", family.default_head_dim);
  layer.head_dim = head_dim == 0 ? layer.hidden_size / layer.num_heads : head_dim;
  layer.value_dim = layer.head_dim;
  return layer;
}

/// The layer without its attention.
LayerShape without_attention(const LayerShape& from) {
  LayerShape layer;
  layer.hidden_size = from.hidden_size;
  layer.norms = from.norms;
  layer.dense_width = from.dense_width;
  layer.gated = from.gated;
  layer.mlp_bias = from.mlp_bias;
  return layer;
}

/// The layer with its parts: the window, a state, and experts in place of the dense MLP.
LayerShape layer_of(const Layers& layers, std::size_t l) {
  const LayerParts& parts = layers.parts[l];
  LayerShape layer = parts.attention ? layers.dense : without_attention(layers.dense);
  if (parts.attention && !layers.windows.empty()) layer.window = layers.windows[l];
  if (parts.state) layer.state = layers.state;
  if (!parts.dense) layer.dense_width = 0;
  if (!parts.experts) return layer;
  layer.dense_width = layers.sparse.dense_width;
  layer.shared_gate = layers.sparse.shared_gate;
  layer.experts = layers.sparse.experts;
  layer.experts_per_token = layers.sparse.experts_per_token;
  layer.expert_width = layers.sparse.expert_width;
  layer.expert_latent = layers.sparse.expert_latent;
  layer.expert_bias = layers.sparse.expert_bias;
  layer.norm_topk_prob = layers.sparse.norm_topk_prob;
  return layer;
}

}  // namespace

std::vector<std::string_view> planned_families() {
  std::vector<std::string_view> names;
  for (const PlannedFamily& family : all_families())
    if (std::ranges::find(family_facts(), family.model_type, &FamilyFacts::model_type) ==
        family_facts().end())
      names.push_back(family.model_type);
  return names;
}

bool is_planned_family(std::string_view model_type) {
  const std::vector<PlannedFamily> all = all_families();
  return std::ranges::find(all, model_type, &PlannedFamily::model_type) != all.end();
}

Decoder planned_decoder_from_json(const json& config, const std::string& origin) {
  const JsonFields fields(config, origin);
  const PlannedFamily family = family_of(fields);
  refuse_unknown_costs(config, origin, family.class_stem);
  const std::size_t count = layer_count(fields);
  const Reader in(fields, config, count);
  Decoder shape;
  shape.vocab_size = fields.integer("vocab_size", 1, kMaxVocabulary);
  shape.max_positions = Tokens(positions_of(fields, family.default_positions));
  shape.tie_embeddings =
      in.flag("tie_embedding", in.flag("tie_word_embeddings", family.default_tied));
  Layers layers;
  layers.parts.resize(count);
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
  shape.config = json_text(kept);
  return shape;
}

}  // namespace slimpack
