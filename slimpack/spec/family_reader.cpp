// The fields of a config.json of a planned family.
#include <algorithm>
#include <array>
#include <utility>

#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/family_reader.h"

namespace slimpack {

namespace {

using nlohmann::json;

/// Names of layer types that transformers renamed.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOlderNames{
    {{"mamba", "linear_attention"}, {"attention", "full_attention"}}};

std::string newer_name(std::string name) {
  for (const auto& [older, newer] : kOlderNames)
    if (name == older) return std::string(newer);
  return name;
}

std::string quoted(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("{}\"{}\"",
                        text.empty()           ? ""
                        : name == names.back() ? " and "
                                               : ", ",
                        name);
  return text;
}

}  // namespace

std::int64_t FamilyReader::size(std::initializer_list<const char*> keys,
                                std::int64_t otherwise) const {
  for (const char* key : keys)
    if (fields_.has(key)) return size(key, otherwise);
  return otherwise;
}

void FamilyReader::require_width(std::string_view what, std::int64_t width) const {
  if (width < 1 || width > kMaxWidth)
    invalid_input("{}: {} is {}, allowed are 1 to {}; correct the file", fields_.origin(), what,
                  width, kMaxWidth);
}

void FamilyReader::read_window(Layers& out, std::int64_t window,
                               const LayerTest& is_windowed) const {
  out.windows = layer_windows(fields_, layers_, window, is_windowed);
}

void FamilyReader::read_experts(Layers& out, std::int64_t experts, std::int64_t per_token,
                                std::int64_t width, const LayerTest& has_experts) const {
  out.sparse.experts = experts;
  out.sparse.experts_per_token = per_token;
  out.sparse.expert_width = width;
  for (std::size_t l = 0; l < layers_; ++l) out.parts[l].experts = experts > 0 && has_experts(l);
}

std::vector<std::string> FamilyReader::types(const char* key,
                                             std::span<const std::string_view> known) const {
  std::vector<std::string> out;
  if (!fields_.has(key)) return out;
  const json& names = fields_.array(key);
  if (names.size() != layers_)
    invalid_input("{}: {} has {} entries, num_hidden_layers is {}; make them equal",
                  fields_.origin(), key, names.size(), layers_);
  for (const json& name : names) {
    if (name.is_string()) {
      out.push_back(newer_name(name.get<std::string>()));
      if (std::ranges::find(known, out.back()) != known.end()) continue;
    }
    invalid_input("{}: {}[{}] is {}, whose cost is not known; known are {}", fields_.origin(), key,
                  &name - &names.front(), json_text(name), quoted(known));
  }
  return out;
}

std::vector<std::int64_t> FamilyReader::integers(const char* key) const {
  std::vector<std::int64_t> out;
  if (!fields_.has(key)) return out;
  for (const json& value : fields_.array(key))
    out.push_back(json_integer(value, fmt::format("{}: {}", fields_.origin(), key), 0, INT64_MAX));
  return out;
}

void read_biases(const FamilyReader& in, Layers& out) {
  out.dense.qkv_bias = out.dense.output_bias = in.flag("attention_bias");
}

LayerTest sparse_steps(const FamilyReader& in) {
  const std::vector<std::int64_t> dense = in.integers("mlp_only_layers");
  const auto step =
      static_cast<std::size_t>(std::max<std::int64_t>(1, in.size("decoder_sparse_step", 1)));
  return [=](std::size_t l) {
    return (l + 1) % step == 0 &&
           std::ranges::find(dense, static_cast<std::int64_t>(l)) == dense.end();
  };
}

void read_shared_experts(const FamilyReader& in, Layers& out, std::int64_t dense_layers,
                         std::int64_t experts, std::int64_t width) {
  const auto first = static_cast<std::size_t>(in.size("first_k_dense_replace", dense_layers));
  in.read_experts(out, in.size("n_routed_experts", experts), in.size("num_experts_per_tok", 8),
                  width, [=](std::size_t l) { return l >= first; });
  out.sparse.dense_width = in.size("n_shared_experts", 1) * width;
}

void read_latents(const FamilyReader& in, Layers& out, std::int64_t q_rank) {
  LayerShape& layer = out.dense;
  layer.num_kv_heads = layer.num_heads;  // of which keys and values are made
  layer.q_rank = q_rank;
  layer.kv_rank = in.size("kv_lora_rank", 512);
  layer.shared_key_dim = in.size("qk_rope_head_dim", 64);
  layer.head_dim = in.size("qk_nope_head_dim", 128) + layer.shared_key_dim;
  layer.value_dim = in.size("v_head_dim", 128);
}

}  // namespace slimpack
