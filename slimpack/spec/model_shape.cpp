#include "slimpack/spec/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/model_family.h"
#include "slimpack/spec/shape_limits.h"

namespace slimpack {

namespace {

constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMaxIntermediate = std::int64_t{1} << 22;

void check_sizes(const ModelShape& s, std::vector<std::string>& errors) {
  struct Size {
    std::string_view name;
    std::int64_t value;
    std::int64_t high;
  };
  const std::array<Size, 8> sizes{
      {{"hidden_size", s.hidden_size, kMaxWidth},
       {"intermediate_size", s.intermediate_size, kMaxIntermediate},
       {"num_hidden_layers", s.num_layers, kMaxLayers},
       {"num_attention_heads", s.num_heads, kMaxWidth},
       {"num_key_value_heads", s.num_kv_heads, kMaxWidth},
       {"head_dim", s.head_dim, kMaxWidth},
       {"vocab_size", s.vocab_size, kMaxVocabulary},
       {"max_position_embeddings", s.max_positions.count(), kMaxPositions}}};
  for (const Size& size : sizes)
    if (size.value < 1 || size.value > size.high)
      errors.push_back(
          fmt::format("{} is {}, allowed are 1 to {}", size.name, size.value, size.high));
}

void check_heads(const ModelShape& s, std::vector<std::string>& errors) {
  if (s.num_heads % s.num_kv_heads != 0)
    errors.push_back(
        fmt::format("num_attention_heads is {}, must be a multiple of num_key_value_heads, {}",
                    s.num_heads, s.num_kv_heads));
  if (s.head_dim % 2 != 0)
    errors.push_back(fmt::format("head_dim is {}, must be even for rotary embeddings", s.head_dim));
  if (s.q_width() > kMaxWidth)
    errors.push_back(fmt::format("num_attention_heads × head_dim is {}, at most {} are allowed",
                                 s.q_width(), kMaxWidth));
  if (s.family == ModelFamily::kLlama && s.hidden_size % s.num_heads != 0)
    errors.push_back(
        fmt::format("hidden_size is {}, a Llama's must be a multiple of num_attention_heads, {}",
                    s.hidden_size, s.num_heads));
}

void check_reals(const ModelShape& s, std::vector<std::string>& errors) {
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

/// Checks that the family may have these biases and norms. config.json cannot express others.
void check_family(const ModelShape& s, std::vector<std::string>& errors) {
  const bool chosen_bias = s.family == ModelFamily::kLlama || s.family == ModelFamily::kQwen3;
  const bool qkv_bias = chosen_bias ? s.qkv_bias : s.family == ModelFamily::kQwen2;
  const bool output_bias = chosen_bias && s.qkv_bias;
  if (s.qkv_bias != qkv_bias || s.output_bias != output_bias)
    errors.push_back(fmt::format("qkv_bias is {} and output_bias is {}, a {} model has {} and {}",
                                 s.qkv_bias, s.output_bias, to_string(s.family), qkv_bias,
                                 output_bias));
  if (s.mlp_bias && s.family != ModelFamily::kLlama)
    errors.push_back(fmt::format("mlp_bias is true, a {} model has none", to_string(s.family)));
  if (s.qk_norm != (s.family == ModelFamily::kQwen3))
    errors.push_back(fmt::format("qk_norm is {}, a {} model has {}", s.qk_norm, to_string(s.family),
                                 !s.qk_norm));
}

}  // namespace

std::span<const FamilyFacts> family_facts() {
  static constexpr std::array<FamilyFacts, 4> kFacts{{
      {ModelFamily::kLlama, "llama", "Llama", 0, 0},
      {ModelFamily::kQwen2, "qwen2", "Qwen2", 32, 0},
      {ModelFamily::kQwen3, "qwen3", "Qwen3", 32, 128},
      {ModelFamily::kMistral, "mistral", "Mistral", 8, 0},
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

std::int64_t ModelShape::layer_parameters() const {
  return layer_shape(*this).parameters();
}

std::int64_t ModelShape::parameters() const {
  const std::int64_t matrices = tie_embeddings ? 1 : 2;
  return num_layers * layer_parameters() + matrices * embedding_parameters() + hidden_size;
}

std::vector<std::string> shape_errors(const ModelShape& shape) {
  std::vector<std::string> errors;
  check_sizes(shape, errors);
  if (errors.empty()) check_heads(shape, errors);  // divides, so sizes must be positive
  check_reals(shape, errors);
  check_family(shape, errors);
  return errors;
}

ModelShape tensor_parallel_part(const ModelShape& shape, std::int32_t tp) {
  const auto require_divides = [tp](std::int64_t count, std::string_view what) {
    if (tp < 1 || count % tp != 0)
      invalid_input("parallel.tp is {}, must divide the model's {} {}; use a divisor", tp, count,
                    what);
  };
  require_divides(shape.num_heads, "attention heads");
  require_divides(shape.intermediate_size, "columns of the MLP (intermediate_size)");
  if (shape.num_kv_heads % tp != 0 && tp % shape.num_kv_heads != 0)
    invalid_input(
        "parallel.tp is {}, must divide the model's {} key/value heads or be a multiple of them; "
        "use such a number",
        tp, shape.num_kv_heads);
  ModelShape part = shape;
  part.num_heads /= tp;
  part.num_kv_heads = std::max<std::int64_t>(1, shape.num_kv_heads / tp);
  part.intermediate_size /= tp;
  return part;
}

}  // namespace slimpack
