#include "slimpack/packflow/layer/decoder_layer.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/layer/layer_parts.h"
#include "slimpack/packflow/layer/recompute_rows.h"

namespace slimpack {
namespace {

/// Normalises and rotates q and k of the projection as its parts of `turned` are. Keeps rows of the
/// q/k norms.
void normalize_and_rotate(const LayerContext& c, const fused::Heads& raw,
                          const fused::Heads& turned, LayerRows& rows) {
  if (norms_with_rope(c, raw.q_TND)) {
    if (keeps_queries(c.recompute)) {
      rows.raw_q_TND = at::empty(raw.q_TND.sizes(), raw.q_TND.options());
      rows.raw_k_TGD = at::empty(raw.k_TGD.sizes(), raw.k_TGD.options());
    }
    fused::normed_rope(raw, {c.rope.cos, c.rope.sin}, head_norms(c), turned,
                       {rows.raw_q_TND, rows.raw_k_TGD, {}});
    return;
  }
  const LayerParameters& p = c.parameters;
  rotate({normed_heads(c, raw.q_TND, p.q_norm_D, rows.q_rstd_TN1),
          normed_heads(c, raw.k_TGD, p.k_norm_D, rows.k_rstd_TG1), raw.v_TGD},
         c.rope, turned);
  rows.raw_q_TND = raw.q_TND.contiguous();
  rows.raw_k_TGD = raw.k_TGD.contiguous();
}

/// Queries, keys and values as attention takes them, of the layer's input.
fused::Heads attention_inputs(const LayerContext& c, const at::Tensor& x_TH, LayerRows& rows) {
  const LayerParameters& p = c.parameters;
  const at::Tensor qkv_TO = to_attention(
      c, linear(c.rows.gathered(normed_input(c, x_TH, p.attention_norm_H, rows.attention_rstd_T1)),
                p.qkv_OH, p.qkv_bias_O));
  const fused::Heads raw = split_qkv(qkv_TO, c.shape);
  fused::Heads turned{
      at::empty(raw.q_TND.sizes(), raw.q_TND.options()), KvStore::room(raw.k_TGD), {}};
  if (rotation_copies_values(raw.v_TGD)) turned.v_TGD = KvStore::room(raw.v_TGD);
  if (c.shape.has_qk_norm())
    normalize_and_rotate(c, raw, turned, rows);
  else
    rotate(raw, c.rope, turned);
  if (!turned.v_TGD.defined()) turned.v_TGD = raw.v_TGD;
  return turned;
}

void attention_block_forward(const LayerContext& c, const at::Tensor& x_TH, LayerRows& rows) {
  LayerParameters& p = c.parameters;
  const fused::Heads heads = attention_inputs(c, x_TH, rows);
  // With q/k norms backward rotates again, unless everything is kept.
  if (!c.shape.has_qk_norm() || c.recompute == Recompute::kNothing) rows.q_TND = heads.q_TND;
  c.kv.write(c.layer, c.pack.slices, heads.k_TGD, heads.v_TGD);
  AttentionResult result = attend(c, heads.q_TND, c.exchange);
  rows.out_TND = std::move(result.out_TND);
  rows.lse_TN = std::move(result.lse_TN);
  rows.middle_TH = row_linear_onto(c, x_TH, from_attention(c, rows.out_TND.flatten(1)), p.output_HQ,
                                   p.output_bias_H);
}

/// The input of a norm, and 1 / rms where it was kept.
struct NormInput {
  const at::Tensor& x_TH;
  const at::Tensor& rstd_T1;
};

/// Backward of x → x, linear(rms_norm(x)): gradient of x. `residual_TH`: that of the first. Gives
/// `dy_TO` up as soon as it can.
at::Tensor normed_linear_backward(const LayerContext& c, at::Tensor dy_TO, const NormInput& in,
                                  const at::Tensor& residual_TH, Parameter& norm_H,
                                  Parameter& weight_OH, Parameter& bias_O,
                                  WeightGradients& weights) {
  if (fused::takes_norm(in.x_TH, norm_H.value)) {
    at::Tensor dx_TH = c.rows.scattered(linear_input_gradient(dy_TO, weight_OH));
    at::Tensor y_TH = at::empty(in.x_TH.sizes(), in.x_TH.options());
    fused::rms_norm_backward(dx_TH, {in.x_TH, norm_H.value, residual_TH, c.rms_norm_eps}, y_TH,
                             norm_H.gradient);
    weights.add({std::move(dy_TO), std::move(y_TH), &norm_H, &weight_OH, &bias_O, true}, c.rows);
    return dx_TH;
  }
  const Normalized norm = normalized(c, in.x_TH, in.rstd_T1);
  weights.add({dy_TO, norm.n, &norm_H, &weight_OH, &bias_O}, c.rows);
  at::Tensor dn_TH = linear_input_gradient(dy_TO, weight_OH);
  dy_TO = at::Tensor();
  dn_TH = c.rows.scattered(dn_TH);
  return rms_norm_backward(dn_TH, in.x_TH, norm, norm_H).add_(residual_TH);
}

/// Gradient of the input of row_linear_onto, from that of its output. Gives `x_TI` up as soon as it
/// can.
at::Tensor row_linear_backward(const LayerContext& c, const at::Tensor& dy_TH, at::Tensor x_TI,
                               Parameter& weight_HI, Parameter& bias_H, WeightGradients& weights) {
  const at::Tensor all_TH = c.rows.gathered(dy_TH);
  weights.add({dy_TH, std::move(x_TI), nullptr, &weight_HI, &bias_H}, c.rows, all_TH);
  return linear_input_gradient(all_TH, weight_HI);
}

/// Gradient of gate and up, from that of the MLP's output.
at::Tensor gate_up_gradient(const LayerContext& c, const BackwardRows& rows,
                            const at::Tensor& dy_TH, WeightGradients& weights) {
  LayerParameters& p = c.parameters;
  if (!gated_backward_gives_activation(rows.gate_up_TO))
    return gated_backward(
        row_linear_backward(c, dy_TH, activation(rows), p.down_HF, p.down_bias_H, weights),
        rows.gate_up_TO);
  const at::Tensor all_TH = c.rows.gathered(dy_TH);
  at::Tensor act_TF = linear_input_gradient(all_TH, p.down_HF);
  at::Tensor d_gate_up_TO = gated_backward_with_activation(act_TF, rows.gate_up_TO);
  weights.add({dy_TH, std::move(act_TF), nullptr, &p.down_HF, &p.down_bias_H}, c.rows, all_TH);
  return d_gate_up_TO;
}

/// Gradient of the residual after attention.
at::Tensor mlp_block_backward(const LayerContext& c, const BackwardRows& rows,
                              const at::Tensor& dy_TH, WeightGradients& weights) {
  LayerParameters& p = c.parameters;
  return normed_linear_backward(c, gate_up_gradient(c, rows, dy_TH, weights),
                                {rows.joined.middle_TH, rows.joined.mlp_rstd_T1}, dy_TH,
                                p.mlp_norm_H, p.gate_up_OH, p.gate_up_bias_O, weights);
}

/// Undoes the q/k norms in place: gradients of the projection's own output.
void undo_norms(const LayerContext& c, const LayerRows& rows, const Queries& seen,
                at::Tensor& dqkv_TO) {
  const fused::Heads d = split_qkv(dqkv_TO, c.shape);
  d.q_TND.copy_(rms_norm_backward(d.q_TND, rows.raw_q_TND, seen.q_norm, c.parameters.q_norm_D));
  d.k_TGD.copy_(rms_norm_backward(d.k_TGD, rows.raw_k_TGD, seen.k_norm, c.parameters.k_norm_D));
}

/// Gradient of the layer's input from that of the residual after attention.
at::Tensor attention_block_backward(const LayerContext& c, const LayerRows& rows,
                                    const at::Tensor& dmiddle_TH, WeightGradients& weights) {
  LayerParameters& p = c.parameters;
  at::Tensor dqkv_TO;
  {
    const at::Tensor out_TQ = from_attention(c, rows.out_TND.flatten(1));
    const at::Tensor dout_TND =
        to_attention(
            c, row_linear_backward(c, dmiddle_TH, out_TQ, p.output_HQ, p.output_bias_H, weights))
            .view(rows.out_TND.sizes());
    const Queries seen = queries(c, rows);
    const bool together = norms_with_rope(c, rows.out_TND);
    dqkv_TO = attend_backward(
        c, {dout_TND, seen.q_TND, rows.out_TND, rows.lse_TN},
        together ? fused::Heads{rows.raw_q_TND, rows.raw_k_TGD, {}} : fused::Heads());
    if (c.shape.has_qk_norm() && !together) undo_norms(c, rows, seen, dqkv_TO);
    if (c.remap != nullptr) dqkv_TO = c.remap->from_attention(dqkv_TO);
  }
  return normed_linear_backward(c, std::move(dqkv_TO), {rows.x_TH, rows.attention_rstd_T1},
                                dmiddle_TH, p.attention_norm_H, p.qkv_OH, p.qkv_bias_O, weights);
}

}  // namespace

LayerForward layer_forward(const LayerContext& c, const at::Tensor& x_TH) {
  LayerParameters& p = c.parameters;
  LayerRows rows;
  rows.x_TH = x_TH;
  attention_block_forward(c, x_TH, rows);
  rows.gate_up_TO =
      linear(c.rows.gathered(normed_input(c, rows.middle_TH, p.mlp_norm_H, rows.mlp_rstd_T1)),
             p.gate_up_OH, p.gate_up_bias_O);
  rows.act_TF = gated({rows.gate_up_TO});
  at::Tensor y_TH = row_linear_onto(c, rows.middle_TH, rows.act_TF, p.down_HF, p.down_bias_H);
  drop_rows(rows, c.recompute);
  return {std::move(y_TH), std::move(rows)};
}

at::Tensor layer_backward(const LayerContext& c, BackwardRows kept, const at::Tensor& dy_TH,
                          WeightGradients& weights) {
  const BackwardRows rows = with_missing_rows(c, std::move(kept));
  return attention_block_backward(c, rows.joined, mlp_block_backward(c, rows, dy_TH, weights),
                                  weights);
}

}  // namespace slimpack
