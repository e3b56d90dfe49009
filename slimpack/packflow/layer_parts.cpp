#include "slimpack/packflow/layer_parts.h"

#include <ATen/ops/silu.h>

#include "slimpack/packflow/linear.h"

namespace slimpack {

Projections split_qkv(const at::Tensor& qkv_TO, const ModelShape& s) {
  const auto part = [&](std::int64_t begin, std::int64_t heads) {
    return qkv_TO.narrow(1, begin, heads * s.head_dim).unflatten(1, {heads, s.head_dim});
  };
  return {part(0, s.num_heads), part(s.q_width(), s.num_kv_heads),
          part(s.q_width() + s.kv_width(), s.num_kv_heads)};
}

at::Tensor row_linear_onto(const LayerContext& c, const at::Tensor& residual_TH,
                           const at::Tensor& x_TI, const Parameter& weight_HI,
                           const Parameter& bias_H) {
  if (c.rows.alone()) return linear_onto(residual_TH, x_TI, weight_HI, bias_H);
  at::Tensor y_TH = c.rows.scattered(linear(x_TI, weight_HI, Parameter())).add_(residual_TH);
  if (bias_H.defined()) y_TH.add_(bias_H.value);
  return y_TH;
}

at::Tensor gated(const at::Tensor& gate_up_TO) {
  const std::int64_t ffn = gate_up_TO.size(1) / 2;
  return at::silu(gate_up_TO.narrow(1, 0, ffn)).mul_(gate_up_TO.narrow(1, ffn, ffn));
}

}  // namespace slimpack
