#include "slimpack/packflow/layer_parts.h"

#include <ATen/ops/silu.h>

#include <utility>
#include <vector>

#include "slimpack/packflow/context_attention.h"
#include "slimpack/packflow/linear.h"
#include "slimpack/packflow/tensor.h"

namespace slimpack {

Projections split_qkv(const at::Tensor& qkv_TO, const ModelShape& s) {
  const auto part = [&](std::int64_t begin, std::int64_t heads) {
    return qkv_TO.narrow(1, begin, heads * s.head_dim).unflatten(1, {heads, s.head_dim});
  };
  return {part(0, s.num_heads), part(s.q_width(), s.num_kv_heads),
          part(s.q_width() + s.kv_width(), s.num_kv_heads)};
}

AttentionResult attend(const LayerContext& c, const at::Tensor& q_TND) {
  if (c.group) return context_attention_forward({c.pack, *c.group, c.kv, c.layer}, q_TND);
  std::vector<at::Tensor> out, lse;
  for_each_slice(c, [&](const Slice& slice, std::int64_t row, std::int64_t rows) {
    AttentionResult result =
        attention_forward(q_TND.narrow(0, row, rows), c.kv.upto(c.layer, slice), slice.prefix());
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  });
  return {joined_rows(out), joined_rows(lse)};
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
