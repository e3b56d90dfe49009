#include "slimpack/packflow/layer/layer_parts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <algorithm>

#include "slimpack/packflow/kernels/linear.h"

namespace slimpack {
namespace {

/// Views of the two halves.
struct GateUp {
  explicit GateUp(const at::Tensor& gate_up_TO)
      : gate(gate_up_TO.narrow(1, 0, gate_up_TO.size(1) / 2)),
        up(gate_up_TO.narrow(1, gate.size(1), gate.size(1))) {}
  [[nodiscard]] std::int64_t rows() const { return gate.size(0); }

  at::Tensor gate, up;
};

}  // namespace

fused::Heads split_qkv(const at::Tensor& qkv_TO, const LayerShape& s) {
  const auto part = [&](std::int64_t begin, std::int64_t heads) {
    return qkv_TO.narrow(1, begin, heads * s.head_dim).unflatten(1, {heads, s.head_dim});
  };
  return {part(0, s.num_heads), part(s.q_width(), s.num_kv_heads),
          part(s.q_width() + s.k_width(), s.num_kv_heads)};
}

at::Tensor as_normed(const LayerContext& c, const at::Tensor& heads_TND) {
  const bool whole = c.shape.qk_norm == QkNorm::kWhole && heads_TND.dim() == 3;
  return whole ? heads_TND.flatten(1).unsqueeze(1) : heads_TND;
}

fused::HeadNorms head_norms(const LayerContext& c) {
  return {c.parameters.q_norm_D.value, c.parameters.k_norm_D.value, c.rms_norm_eps};
}

bool norms_with_rope(const LayerContext& c, const at::Tensor& like_TND) {
  return c.shape.qk_norm == QkNorm::kPerHead &&
         fused::takes_normed_heads({like_TND, {}, {}}, head_norms(c));
}

at::Tensor row_linear_onto(const LayerContext& c, const at::Tensor& residual_TH,
                           const at::Tensor& x_TI, const Parameter& weight_HI,
                           const Parameter& bias_H) {
  if (c.rows.alone()) return linear_onto(residual_TH, x_TI, weight_HI, bias_H);
  at::Tensor y_TH = c.rows.scattered(linear(x_TI, weight_HI, Parameter())).add_(residual_TH);
  if (bias_H.defined()) y_TH.add_(bias_H.value);
  return y_TH;
}

at::Tensor gated(const std::vector<at::Tensor>& gate_up_TO) {
  std::int64_t rows = 0;
  for (const at::Tensor& piece : gate_up_TO) rows += piece.size(0);
  const GateUp first(gate_up_TO.front());
  const at::Tensor act_TF = at::empty({rows, first.up.size(1)}, first.up.options());
  std::int64_t row = 0;
  for (const at::Tensor& both : gate_up_TO) {
    const GateUp piece(both);
    at::Tensor act = act_TF.narrow(0, row, piece.rows());
    if (fused::takes_rows(both) && fused::takes_rows(act)) {
      fused::swiglu(both, act);
    } else {
      at::silu_out(act, piece.gate);
      act.mul_(piece.up);
    }
    row += piece.rows();
  }
  return act_TF;
}

at::Tensor gated_backward(const at::Tensor& dact_TF, const std::vector<at::Tensor>& gate_up_TO) {
  const at::Tensor d_TO = at::empty({dact_TF.size(0), 2 * dact_TF.size(1)}, dact_TF.options());
  std::int64_t row = 0;
  for (const at::Tensor& both : gate_up_TO) {
    const GateUp piece(both);
    const at::Tensor dact = dact_TF.narrow(0, row, piece.rows());
    GateUp d(d_TO.narrow(0, row, piece.rows()));
    at::mul_out(d.gate, dact, piece.up);
    at::silu_backward_out(d.gate, d.gate, piece.gate);
    at::silu_out(d.up, piece.gate);
    d.up.mul_(dact);
    row += piece.rows();
  }
  return d_TO;
}

bool gated_backward_gives_activation(const std::vector<at::Tensor>& gate_up_TO) {
  return gate_up_TO.front().size(1) % 16 == 0 && std::ranges::all_of(gate_up_TO, fused::takes_rows);
}

at::Tensor gated_backward_with_activation(const at::Tensor& dact_TF,
                                          const std::vector<at::Tensor>& gate_up_TO) {
  at::Tensor d_TO = at::empty({dact_TF.size(0), 2 * dact_TF.size(1)}, dact_TF.options());
  std::int64_t row = 0;
  for (const at::Tensor& piece : gate_up_TO) {
    const std::int64_t rows = piece.size(0);
    fused::swiglu_backward(dact_TF.narrow(0, row, rows), piece, d_TO.narrow(0, row, rows));
    row += rows;
  }
  return d_TO;
}

}  // namespace slimpack
