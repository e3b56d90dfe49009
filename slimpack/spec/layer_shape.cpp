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
  const std::int64_t with_queries = s.gate_width == s.q_width() ? s.gate_width : 0;
  const std::int64_t qkv_bias = s.kv_rank > 0
                                    ? s.q_rank + s.kv_rank + s.shared_key_dim
                                    : s.q_width() + with_queries + s.k_width() + s.v_width();
  return qk_norm + s.q_rank + s.kv_rank + (s.qkv_bias ? qkv_bias : 0) +
         (s.output_bias ? s.hidden_size : 0) + (s.sinks ? s.num_heads : 0);
}

/// The maps of an MLP: gate, up and down.
std::int64_t maps(const LayerShape& s) {
  return s.gated ? 3 : 2;
}

std::int64_t expert_input(const LayerShape& s) {
  return s.expert_latent > 0 ? s.expert_latent : s.hidden_size;
}

std::int64_t mlp_vectors(const LayerShape& s, std::int64_t input, std::int64_t width, bool bias) {
  return width == 0 || !bias ? 0 : (maps(s) - 1) * width + input;
}

/// Elements of the matrices of an MLP with so many experts.
std::int64_t mlp_weights(const LayerShape& s, std::int64_t experts) {
  return maps(s) * (s.hidden_size * s.dense_width + experts * expert_input(s) * s.expert_width) +
         2 * s.hidden_size * s.expert_latent + s.experts * s.hidden_size +
         (s.shared_gate ? s.hidden_size : 0);
}

std::int64_t attention_weights(const LayerShape& s) {
  return s.q_weights() + s.kv_weights() + s.hidden_size * (s.gate_width + s.out_width());
}

/// With so many experts.
std::int64_t layer_parameters(const LayerShape& s, std::int64_t experts) {
  const std::int64_t latent =
      s.mlp_bias && s.expert_latent > 0 ? s.expert_latent + s.hidden_size : 0;
  return attention_weights(s) + attention_vectors(s) + s.state.weights + s.state.vectors +
         s.norms * s.hidden_size + mlp_weights(s, experts) +
         mlp_vectors(s, s.hidden_size, s.dense_width, s.mlp_bias) + latent +
         (s.expert_bias ? s.experts : 0) +
         experts * mlp_vectors(s, expert_input(s), s.expert_width, s.expert_bias);
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
  return attention_weights(*this) + state.weights + mlp_weights(*this, experts_per_token);
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
  if (tp > 1 && (layer.experts > 0 || layer.qk_norm == QkNorm::kWhole))
    invalid_input(
        "parallel.tp is {}, but this version does not share out {} over tensor-parallel ranks; set "
        "parallel.tp to 1 (fit, plan and compare take it)",
        tp, layer.experts > 0 ? "experts" : "norms over all heads");
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
  const std::int64_t heads = s.attends() ? 1 : 0;  // the least of each size of attention
  // With these bounds a layer has below 2^49 parameters.
  const std::array<Size, 16> sizes{
      {{"hidden_size", s.hidden_size, 1, kMaxWidth},
       {"num_attention_heads", s.num_heads, heads, kMaxWidth},
       {"num_key_value_heads", s.num_kv_heads, heads, kMaxWidth},
       {"head_dim", s.head_dim, heads, kMaxWidth},
       {"v_head_dim", s.value_dim, heads, kMaxWidth},
       {"num_attention_heads × head_dim", s.q_width(), heads, kMaxWidth},
       {"num_attention_heads × v_head_dim", s.out_width(), heads, kMaxWidth},
       {"kv_lora_rank", s.kv_rank, 0, kMaxWidth},
       {"qk_rope_head_dim", s.shared_key_dim, 0, s.head_dim},
       {"q_lora_rank", s.q_rank, 0, kMaxWidth},
       {"intermediate_size", s.dense_width, 0, kMaxIntermediate},
       {"num_experts (or num_local_experts, n_routed_experts)", s.experts, 0, kMaxExperts},
       {"num_experts_per_tok", s.experts_per_token, sparse ? 1 : 0, s.experts},
       {"moe_intermediate_size", s.expert_width, sparse ? 1 : 0, kMaxExpertWidth},
       {"moe_latent_size", s.expert_latent, 0, kMaxWidth},
       {"sliding_window", s.window, 0, (std::int64_t{1} << 31) - 1}}};
  std::vector<std::string> errors;
  for (const Size& size : sizes)
    if (size.value < size.low || size.value > size.high)
      errors.push_back(fmt::format("{} is {}, allowed are {} to {}", size.name, size.value,
                                   size.low, size.high));
  if (errors.empty() && s.attends() && s.num_heads % s.num_kv_heads != 0)
    errors.push_back(
        fmt::format("num_attention_heads is {}, must be a multiple of num_key_value_heads, {}",
                    s.num_heads, s.num_kv_heads));
  return errors;
}

}  // namespace slimpack
