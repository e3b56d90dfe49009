#include "slimpack/packflow/layer/decoder_layer.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/layer/experts.h"
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

/// The residual after attention plus the MLP of it.
at::Tensor mlp_block_forward(const LayerContext& c, LayerRows& rows) {
  const LayerParameters& p = c.parameters;
  rows.gate_up_TO =
      linear(c.rows.gathered(normed_input(c, rows.middle_TH, p.mlp_norm_H, rows.mlp_rstd_T1)),
             p.gate_up_OH, p.gate_up_bias_O);
  rows.act_TF = gated({rows.gate_up_TO});
  return row_linear_onto(c, rows.middle_TH, rows.act_TF, p.down_HF, p.down_bias_H);
}

/// The input of a norm, and 1 / rms where it was kept.
struct NormInput {
  const at::Tensor& x_TH;
  const at::Tensor& rstd_T1;
};

/// The sum of the gradients of the maps' common input.
at::Tensor maps_input_gradient(const std::vector<NormedMap>& maps) {
  at::Tensor dn_TH;
  for (const NormedMap& map : maps) {
    at::Tensor own_TH =
        map.pairs.defined()
            ? map.pairs.summed(grouped_input_gradient(map.dy_TO, *map.weight_OH, map.pairs))
            : linear_input_gradient(map.dy_TO, *map.weight_OH);
    dn_TH = dn_TH.defined() ? dn_TH.add_(own_TH) : std::move(own_TH);
  }
  return dn_TH;
}

/// Backward of x → x, maps of rms_norm(x): gradient of x. `residual_TH`: that of the first. Gives
/// the gradients of the maps' outputs up as soon as it can.
at::Tensor normed_maps_backward(const LayerContext& c, std::vector<NormedMap> maps,
                                const NormInput& in, const at::Tensor& residual_TH,
                                Parameter& norm_H, WeightGradients& weights) {
  if (fused::takes_norm(in.x_TH, norm_H.value)) {
    at::Tensor dx_TH = c.rows.scattered(maps_input_gradient(maps));
    const at::Tensor y_TH = at::empty(in.x_TH.sizes(), in.x_TH.options());
    fused::rms_norm_backward(dx_TH, {in.x_TH, norm_H.value, residual_TH, c.rms_norm_eps}, y_TH,
                             norm_H.gradient);
    for (NormedMap& m : maps)
      weights.add({std::move(m.dy_TO), y_TH, &norm_H, m.weight_OH, m.bias_O, true, m.pairs},
                  c.rows);
    return dx_TH;
  }
  const Normalized norm = normalized(c, in.x_TH, in.rstd_T1);
  for (const NormedMap& m : maps)
    weights.add({m.dy_TO, norm.n, &norm_H, m.weight_OH, m.bias_O, false, m.pairs}, c.rows);
  at::Tensor dn_TH = maps_input_gradient(maps);
  maps.clear();
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
at::Tensor mlp_block_backward(const LayerContext& c, BackwardRows& rows, const at::Tensor& dy_TH,
                              WeightGradients& weights) {
  LayerParameters& p = c.parameters;
  std::vector<NormedMap> maps =
      c.shape.experts > 0 ? experts_backward(c, rows, dy_TH, weights)
                          : std::vector<NormedMap>{{gate_up_gradient(c, rows, dy_TH, weights),
                                                    &p.gate_up_OH, &p.gate_up_bias_O}};
  return normed_maps_backward(c, std::move(maps), {rows.joined.middle_TH, rows.joined.mlp_rstd_T1},
                              dy_TH, p.mlp_norm_H, weights);
}

/// Undoes the q/k norms in place: gradients of the projection's own output.
void undo_norms(const LayerContext& c, const LayerRows& rows, const Queries& seen,
                at::Tensor& dqkv_TO) {
  const fused::Heads d = split_qkv(dqkv_TO, c.shape);
  const auto undo = [&](const at::Tensor& dy, const at::Tensor& raw, const Normalized& norm,
                        Parameter& weight) {
    dy.copy_(rms_norm_backward(as_normed(c, dy), as_normed(c, raw), norm, weight).view(dy.sizes()));
  };
  undo(d.q_TND, rows.raw_q_TND, seen.q_norm, c.parameters.q_norm_D);
  undo(d.k_TGD, rows.raw_k_TGD, seen.k_norm, c.parameters.k_norm_D);
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
  std::vector<NormedMap> maps{{dqkv_TO, &p.qkv_OH, &p.qkv_bias_O}};
  dqkv_TO.reset();
  return normed_maps_backward(c, std::move(maps), {rows.x_TH, rows.attention_rstd_T1}, dmiddle_TH,
                              p.attention_norm_H, weights);
}

}  // namespace

LayerForward layer_forward(const LayerContext& c, const at::Tensor& x_TH) {
  LayerRows rows;
  rows.x_TH = x_TH;
  attention_block_forward(c, x_TH, rows);
  at::Tensor y_TH = c.shape.experts > 0 ? experts_forward(c, rows) : mlp_block_forward(c, rows);
  drop_rows(rows, c.recompute);
  return {std::move(y_TH), std::move(rows)};
}

at::Tensor layer_backward(const LayerContext& c, BackwardRows kept, const at::Tensor& dy_TH,
                          WeightGradients& weights) {
  BackwardRows rows = with_missing_rows(c, std::move(kept));
  const at::Tensor dmiddle_TH = mlp_block_backward(c, rows, dy_TH, weights);
  return attention_block_backward(c, rows.joined, dmiddle_TH, weights);
}

}  // namespace slimpack
