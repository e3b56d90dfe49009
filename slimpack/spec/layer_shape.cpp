#include "slimpack/spec/layer_shape.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

std::int64_t attention_vectors(const LayerShape& s) {
  const std::int64_t qk_norm = s.qk_norm == QkNorm::kPerHead ? 2 * s.head_dim
                               : s.qk_norm == QkNorm::kWhole ? s.q_width() + s.k_width()
                                                             : 0;
  const std::int64_t qkv_bias = s.kv_rank > 0 ? s.q_rank + s.kv_rank + s.shared_key_dim
                                              : s.q_width() + s.k_width() + s.v_width();
  return qk_norm + s.q_rank + s.kv_rank + (s.qkv_bias ? qkv_bias : 0) +
         (s.output_bias ? s.hidden_size : 0) + (s.sinks ? s.num_heads : 0);
}

std::int64_t mlp_parameters(std::int64_t hidden, std::int64_t width, bool bias) {
  return width == 0 ? 0 : 3 * hidden * width + (bias ? 2 * width + hidden : 0);
}

/// With so many experts.
std::int64_t layer_parameters(const LayerShape& s, std::int64_t experts) {
  const std::int64_t router = s.experts * (s.hidden_size + (s.expert_bias ? 1 : 0));
  return s.q_weights() + s.kv_weights() + s.out_width() * s.hidden_size + attention_vectors(s) +
         s.norms * s.hidden_size + mlp_parameters(s.hidden_size, s.dense_width, s.mlp_bias) +
         router + experts * mlp_parameters(s.hidden_size, s.expert_width, s.expert_bias);
}

}  // namespace

std::int64_t LayerShape::q_weights() const {
  return q_rank > 0 ? q_rank * (hidden_size + q_width()) : hidden_size * q_width();
}

std::int64_t LayerShape::kv_weights() const {
  if (kv_rank == 0) return hidden_size * (k_width() + v_width());
  return hidden_size * (kv_rank + shared_key_dim) +
         kv_rank * (k_width() - num_kv_heads * shared_key_dim + v_width());
}

std::int64_t LayerShape::active_weights() const {
  if (counted_parameters > 0) return counted_weights;
  return q_weights() + kv_weights() + out_width() * hidden_size + 3 * hidden_size * active_width() +
         experts * hidden_size;
}

std::int64_t LayerShape::parameters() const {
  if (counted_parameters > 0) return counted_parameters;
  return layer_parameters(*this, experts);
}

std::int64_t LayerShape::map_inputs() const {
  return 3 * hidden_size + out_width() + 2 * hidden_size + dense_width;
}

std::int64_t LayerShape::map_outputs() const {
  return q_width() + k_width() + v_width() + hidden_size + 2 * dense_width + hidden_size;
}

std::int64_t LayerShape::active_parameters() const {
  if (counted_parameters > 0) return counted_weights;
  return layer_parameters(*this, experts_per_token);
}

LayerShape tensor_parallel_part(const LayerShape& layer, std::int32_t tp) {
  const auto require_divides = [tp](std::int64_t count, std::string_view what) {
    if (tp < 1 || count % tp != 0)
      invalid_input("parallel.tp is {}, must divide the model's {} {}; use a divisor", tp, count,
                    what);
  };
  require_divides(layer.num_heads, "attention heads");
  require_divides(layer.dense_width, "columns of the MLP (intermediate_size)");
  if (layer.num_kv_heads % tp != 0 && tp % layer.num_kv_heads != 0)
    invalid_input(
        "parallel.tp is {}, must divide the model's {} key/value heads or be a multiple of them; "
        "use such a number",
        tp, layer.num_kv_heads);
  LayerShape part = layer;
  part.num_heads /= tp;
  part.num_kv_heads = std::max<std::int64_t>(1, layer.num_kv_heads / tp);
  part.dense_width /= tp;
  return part;
}

std::vector<std::string> layer_errors(const LayerShape& s) {
  struct Size {
    std::string_view name;
    std::int64_t value;
    std::int64_t low;
    std::int64_t high;
  };
  constexpr std::int64_t kMaxExpertWidth = std::int64_t{1} << 16;
  constexpr std::int64_t kMaxExperts = std::int64_t{1} << 10;
  const bool sparse = s.experts > 0;
  // With these bounds a layer has below 2^49 parameters.
  const std::array<Size, 15> sizes{
      {{"hidden_size", s.hidden_size, 1, kMaxWidth},
       {"num_attention_heads", s.num_heads, 1, kMaxWidth},
       {"num_key_value_heads", s.num_kv_heads, 1, kMaxWidth},
       {"head_dim", s.head_dim, 1, kMaxWidth},
       {"v_head_dim", s.value_dim, 1, kMaxWidth},
       {"num_attention_heads × head_dim", s.q_width(), 1, kMaxWidth},
       {"num_attention_heads × v_head_dim", s.out_width(), 1, kMaxWidth},
       {"kv_lora_rank", s.kv_rank, 0, kMaxWidth},
       {"qk_rope_head_dim", s.shared_key_dim, 0, s.head_dim},
       {"q_lora_rank", s.q_rank, 0, kMaxWidth},
       {"intermediate_size", s.dense_width, sparse ? 0 : 1, kMaxIntermediate},
       {"num_experts (or num_local_experts, n_routed_experts)", s.experts, 0, kMaxExperts},
       {"num_experts_per_tok", s.experts_per_token, sparse ? 1 : 0, s.experts},
       {"moe_intermediate_size", s.expert_width, sparse ? 1 : 0, kMaxExpertWidth},
       {"sliding_window", s.window, 0, (std::int64_t{1} << 31) - 1}}};
  std::vector<std::string> errors;
  for (const Size& size : sizes)
    if (size.value < size.low || size.value > size.high)
      errors.push_back(fmt::format("{} is {}, allowed are {} to {}", size.name, size.value,
                                   size.low, size.high));
  if (errors.empty() && s.num_heads % s.num_kv_heads != 0)
    errors.push_back(
        fmt::format("num_attention_heads is {}, must be a multiple of num_key_value_heads, {}",
                    s.num_heads, s.num_kv_heads));
  return errors;
}

}  // namespace slimpack
