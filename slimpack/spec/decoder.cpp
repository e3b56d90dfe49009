#include "slimpack/spec/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

namespace {

struct Size {
  std::string_view name;
  std::int64_t value;
  std::int64_t high;
};

void check_sizes(std::initializer_list<Size> sizes, std::vector<std::string>& errors) {
  for (const Size& size : sizes)
    if (size.value < 1 || size.value > size.high)
      errors.push_back(
          fmt::format("{} is {}, allowed are 1 to {}", size.name, size.value, size.high));
}

void check_heads(ModelFamily family, const LayerShape& s, std::vector<std::string>& errors) {
  if (s.num_heads % s.num_kv_heads != 0)
    errors.push_back(
        fmt::format("num_attention_heads is {}, must be a multiple of num_key_value_heads, {}",
                    s.num_heads, s.num_kv_heads));
  if (s.head_dim % 2 != 0)
    errors.push_back(fmt::format("head_dim is {}, must be even for rotary embeddings", s.head_dim));
  if (s.q_width() > kMaxWidth)
    errors.push_back(fmt::format("num_attention_heads × head_dim is {}, at most {} are allowed",
                                 s.q_width(), kMaxWidth));
  if (family == ModelFamily::kLlama && s.hidden_size % s.num_heads != 0)
    errors.push_back(
        fmt::format("hidden_size is {}, a Llama's must be a multiple of num_attention_heads, {}",
                    s.hidden_size, s.num_heads));
  if (family == ModelFamily::kOlmoe && s.q_width() != s.hidden_size)
    errors.push_back(
        fmt::format("head_dim is {}, an OLMoE's must be hidden_size / num_attention_heads, {} / {}",
                    s.head_dim, s.hidden_size, s.num_heads));
}

void check_reals(const Decoder& s, std::vector<std::string>& errors) {
  if (!std::isfinite(s.rms_norm_eps) || s.rms_norm_eps <= 0)
    errors.push_back(fmt::format("rms_norm_eps is {}, must be above 0", s.rms_norm_eps));
  if (!std::isfinite(s.rope_theta) || s.rope_theta <= 0)
    errors.push_back(fmt::format("rope_theta is {}, must be above 0", s.rope_theta));
  for (std::string& error : rope_scaling_errors(s.rope_scaling, s.rope_theta))
    errors.push_back(std::move(error));
  if (!(s.initializer_range >= 0 && s.initializer_range <= 1))
    errors.push_back(
        fmt::format("initializer_range is {}, allowed are 0 to 1", s.initializer_range));
}

std::string_view name_of(QkNorm norm) {
  switch (norm) {
    case QkNorm::kNone:
      return "none";
    case QkNorm::kPerHead:
      return "by head";
    case QkNorm::kWhole:
      return "over all heads";
  }
  return "";
}

/// Checks that the family may have these biases and norms. config.json cannot express others.
void check_family(ModelFamily family, const LayerShape& s, std::vector<std::string>& errors) {
  using enum ModelFamily;
  const bool chosen_bias =
      family == kLlama || family == kQwen3 || family == kQwen3Moe || family == kOlmoe;
  const bool qkv_bias = chosen_bias ? s.qkv_bias : family == kQwen2;
  const bool output_bias = chosen_bias && s.qkv_bias;
  if (s.qkv_bias != qkv_bias || s.output_bias != output_bias)
    errors.push_back(fmt::format("qkv_bias is {} and output_bias is {}, a {} model has {} and {}",
                                 s.qkv_bias, s.output_bias, to_string(family), qkv_bias,
                                 output_bias));
  if (s.mlp_bias && family != kLlama)
    errors.push_back(fmt::format("mlp_bias is true, a {} model has none", to_string(family)));
  const QkNorm qk_norm = family == kQwen3 || family == kQwen3Moe ? QkNorm::kPerHead
                         : family == kOlmoe                      ? QkNorm::kWhole
                                                                 : QkNorm::kNone;
  if (s.qk_norm != qk_norm)
    errors.push_back(fmt::format("norms of queries and keys are {}, a {} model has {}",
                                 name_of(s.qk_norm), to_string(family), name_of(qk_norm)));
  const bool experts = facts_of(family).experts;
  if ((s.experts > 0) != experts || (s.dense_width > 0) == experts)
    errors.push_back(
        fmt::format("num_experts (or num_local_experts) is {} and a dense MLP has {} columns, a {} "
                    "model has {} alone",
                    s.experts, s.dense_width, to_string(family), experts ? "experts" : "the MLP"));
}

void check_layer(ModelFamily family, const LayerShape& s, std::vector<std::string>& errors) {
  const std::size_t before = errors.size();
  check_sizes({{"hidden_size", s.hidden_size, kMaxWidth},
               {"intermediate_size", s.active_width(), kMaxIntermediate},
               {"num_attention_heads", s.num_heads, kMaxWidth},
               {"num_key_value_heads", s.num_kv_heads, kMaxWidth},
               {"head_dim", s.head_dim, kMaxWidth}},
              errors);
  if (errors.size() == before) check_heads(family, s, errors);  // divides: sizes are positive
  check_family(family, s, errors);
  if (s.experts > 0)
    for (std::string& error : layer_errors(s)) errors.push_back(std::move(error));
}

/// Whether a window is that of all layers.
bool all_windowed(ModelFamily family) {
  return family == ModelFamily::kMistral || facts_of(family).experts;
}

/// Checks that layers differ in their windows alone, and as those of the family do.
void check_windows(const Decoder& s, std::vector<std::string>& errors) {
  for (const LayerShape& kind : s.kinds) {
    if (kind.window < 0)
      errors.push_back(fmt::format("sliding_window is {}, must be at least 1", kind.window));
    if (kind.window != 0 && (s.family == ModelFamily::kLlama || s.family == ModelFamily::kOlmoe))
      errors.push_back(
          fmt::format("sliding_window is set, a {} model has none", to_string(s.family)));
    LayerShape alike = kind;
    alike.window = s.kinds.front().window;
    if (alike != s.kinds.front()) errors.push_back("layers differ in more than their windows");
  }
  std::int64_t most = 0;
  for (const LayerShape& kind : s.kinds) most = std::max(most, kind.window);
  for (const LayerShape& kind : s.kinds)
    if (kind.window != most && (kind.window != 0 || all_windowed(s.family)))
      errors.push_back(fmt::format("a layer's window is {}, another one's is {}; make them equal",
                                   kind.window, most));
}

/// Sums `count` of each layer, and the parameters outside the layers.
template <class Count>
std::int64_t counted(const Decoder& decoder, Count count) {
  const std::int64_t matrices = decoder.tie_embeddings ? 1 : 2;
  const auto& edges = decoder.edges;
  std::int64_t sum = edges ? edges->before + edges->after - edges->shared
                           : matrices * decoder.embedding_parameters() + decoder.hidden_size();
  for (const std::uint8_t kind : decoder.kind_of_layer) sum += count(decoder.kinds[kind]);
  return sum;
}

}  // namespace

std::span<const FamilyFacts> family_facts() {
  static constexpr std::array<FamilyFacts, 7> kFacts{{
      {ModelFamily::kLlama, "llama", "Llama", 0, 0},
      {ModelFamily::kQwen2, "qwen2", "Qwen2", 32, 0},
      {ModelFamily::kQwen3, "qwen3", "Qwen3", 32, 128},
      {ModelFamily::kMistral, "mistral", "Mistral", 8, 0},
      {ModelFamily::kMixtral, "mixtral", "Mixtral", 8, 0, true, 1e-5, 1e6},
      {ModelFamily::kQwen3Moe, "qwen3_moe", "Qwen3Moe", 4, 0, true},
      {ModelFamily::kOlmoe, "olmoe", "Olmoe", 0, 0, true, 1e-5},
  }};
  return kFacts;
}

const FamilyFacts& facts_of(ModelFamily family) {
  const auto index = static_cast<std::size_t>(family);
  SLIMPACK_CHECK(index < family_facts().size() && family_facts()[index].family == family);
  return family_facts()[index];
}

std::string_view to_string(ModelFamily family) {
  return facts_of(family).model_type;
}

void Decoder::set_layers(const std::vector<LayerShape>& layers) {
  kinds.clear();
  kind_of_layer.clear();
  for (const LayerShape& layer : layers) {
    const auto kind = std::ranges::find(kinds, layer);
    kind_of_layer.push_back(static_cast<std::uint8_t>(kind - kinds.begin()));
    if (kind == kinds.end()) kinds.push_back(layer);
  }
}

bool Decoder::splits_into(std::int32_t tp) const {
  return std::ranges::all_of(kinds, [&](const LayerShape& kind) {
    const bool divided = kind.num_heads % tp == 0 && kind.experts % tp == 0;
    return divided && (tp == 1 || !kind.has_state());
  });
}

std::vector<std::int64_t> Decoder::count_kinds(std::size_t begin, std::size_t end) const {
  SLIMPACK_CHECK(begin <= end && end <= kind_of_layer.size(), "layers {} to {} of {}", begin, end,
                 kind_of_layer.size());
  std::vector<std::int64_t> counts(kinds.size());
  for (std::size_t l = begin; l < end; ++l) ++counts[kind_of_layer[l]];
  return counts;
}

std::int64_t Decoder::parameters() const {
  return counted(*this, [](const LayerShape& layer) { return layer.parameters(); });
}

std::int64_t Decoder::active_parameters() const {
  return counted(*this, [](const LayerShape& layer) { return layer.active_parameters(); });
}

std::vector<std::string> decoder_errors(const Decoder& decoder) {
  std::vector<std::string> errors;
  check_sizes({{"num_hidden_layers", decoder.num_layers(), kMaxLayers},
               {"vocab_size", decoder.vocab_size, kMaxVocabulary},
               {"max_position_embeddings", decoder.max_positions.count(), kMaxPositions}},
              errors);
  for (const LayerShape& kind : decoder.kinds) check_layer(decoder.family, kind, errors);
  check_windows(decoder, errors);
  check_reals(decoder, errors);
  return errors;
}

Decoder tensor_parallel_part(const Decoder& decoder, std::int32_t tp) {
  Decoder part = decoder;
  for (LayerShape& kind : part.kinds) kind = tensor_parallel_part(kind, tp);
  return part;
}

}  // namespace slimpack
