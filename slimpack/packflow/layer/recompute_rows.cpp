#include "slimpack/packflow/layer/recompute_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <utility>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {
namespace {

/// The first `rows` outputs of a projection.
Parameter first_outputs(const Parameter& parameter, std::int64_t rows) {
  Parameter part;
  if (parameter.defined()) part.value = parameter.value.narrow(0, 0, rows);
  return part;
}

/// q as attention sees it, from q before its norm.
at::Tensor rotated_queries(const LayerContext& c, const at::Tensor& raw_q_TND) {
  if (!norms_with_rope(c, raw_q_TND))
    return rotate(rms_norm(as_normed(c, raw_q_TND), c.parameters.q_norm_D, c.rms_norm_eps)
                      .view(raw_q_TND.sizes()),
                  c.rope);
  at::Tensor q_TND = at::empty(raw_q_TND.sizes(), raw_q_TND.options());
  fused::normed_rope({raw_q_TND, {}, {}}, {c.rope.cos, c.rope.sin}, head_norms(c), {q_TND, {}, {}},
                     {});
  return q_TND;
}

/// Projects q again, and k where it is needed before its norm; v never is.
at::Tensor project_again(const LayerContext& c, LayerRows& rows) {
  const LayerShape& s = c.shape;
  const LayerParameters& p = c.parameters;
  const std::int64_t width = s.q_width() + (s.has_qk_norm() ? s.k_width() : 0);
  const at::Tensor projected_TO = to_attention(
      c, linear(c.rows.gathered(rms_norm(rows.x_TH, p.attention_norm_H, c.rms_norm_eps)),
                first_outputs(p.qkv_OH, width), first_outputs(p.qkv_bias_O, width)));
  const at::Tensor q_TND = projected_TO.narrow(1, 0, s.q_width()).unflatten(1, {-1, s.head_dim});
  if (!s.has_qk_norm()) return rows.q_TND = rotate(q_TND, c.rope);
  rows.raw_q_TND = q_TND;
  rows.raw_k_TGD = projected_TO.narrow(1, s.q_width(), s.k_width()).unflatten(1, {-1, s.head_dim});
  return rotated_queries(c, q_TND);
}

void attend_again(const LayerContext& c, LayerRows& rows) {
  AttentionResult result = attend(c, project_again(c, rows), nullptr);
  rows.out_TND = std::move(result.out_TND);
  rows.lse_TN = std::move(result.lse_TN);
}

}  // namespace

at::Tensor normed_input(const LayerContext& c, const at::Tensor& x, const Parameter& weight,
                        at::Tensor& rstd) {
  // Their backward computes 1 / rms while it reads x.
  if (fused::are_there_for(x)) return rms_norm(x, weight, c.rms_norm_eps);
  return normed_heads(c, x, weight, rstd);
}

at::Tensor normed_heads(const LayerContext& c, const at::Tensor& x, const Parameter& weight,
                        at::Tensor& rstd) {
  const double eps = c.rms_norm_eps;
  if (c.recompute != Recompute::kNothing)
    return rms_norm(as_normed(c, x), weight, eps).view(x.sizes());
  Normalized norm = rms_normalize(as_normed(c, x), eps);
  rstd = std::move(norm.rstd);
  return norm.n.mul_(weight.value).view(x.sizes());
}

bool keeps_queries(Recompute recompute) {
  return recompute != Recompute::kAttention && recompute != Recompute::kFull;
}

bool keeps_gate_up(Recompute recompute) {
  return recompute != Recompute::kMlp && recompute != Recompute::kFull;
}

std::vector<bool> offloading_layers(std::span<const Recompute> by_layer) {
  std::vector<bool> offloading;
  for (const Recompute recompute : by_layer) offloading.push_back(recompute == Recompute::kOffload);
  return offloading;
}

void drop_rows(LayerRows& rows, Recompute recompute) {
  const auto drop = [](auto&... tensors) { (tensors.reset(), ...); };
  switch (recompute) {
    case Recompute::kNothing:
      break;
    case Recompute::kElementwise:
    case Recompute::kOffload:
      drop(rows.act_TF);
      break;
    case Recompute::kAttention:
      drop(rows.q_TND, rows.raw_q_TND, rows.raw_k_TGD, rows.out_TND, rows.lse_TN, rows.act_TF);
      break;
    case Recompute::kMlp:
      drop(rows.gate_up_TO, rows.router_TE, rows.act_TF);
      break;
    case Recompute::kFull:
      drop(rows.q_TND, rows.raw_q_TND, rows.raw_k_TGD, rows.out_TND, rows.lse_TN, rows.middle_TH,
           rows.gate_up_TO, rows.router_TE, rows.act_TF);
      break;
  }
}

BackwardRows with_missing_rows(const LayerContext& c, BackwardRows kept) {
  const LayerParameters& p = c.parameters;
  LayerRows& rows = kept.joined;
  if (!rows.out_TND.defined()) attend_again(c, rows);
  if (!rows.middle_TH.defined())
    rows.middle_TH = row_linear_onto(c, rows.x_TH, from_attention(c, rows.out_TND.flatten(1)),
                                     p.output_HQ, p.output_bias_H);
  if (kept.gate_up_TO.empty() && c.shape.experts == 0)
    kept.gate_up_TO = {
        linear(c.rows.gathered(rms_norm(rows.middle_TH, p.mlp_norm_H, c.rms_norm_eps)),
               p.gate_up_OH, p.gate_up_bias_O)};
  return kept;
}

Normalized normalized(const LayerContext& c, const at::Tensor& x, const at::Tensor& rstd) {
  const double eps = c.rms_norm_eps;
  return rstd.defined() ? rms_normalize(x, eps, rstd) : rms_normalize(x, eps);
}

at::Tensor activation(const BackwardRows& rows) {
  return rows.joined.act_TF.defined() ? rows.joined.act_TF : gated(rows.gate_up_TO);
}

Queries queries(const LayerContext& c, const LayerRows& rows) {
  if (!c.shape.has_qk_norm()) return {rows.q_TND, {}, {}};
  if (norms_with_rope(c, rows.raw_q_TND))
    return {rows.q_TND.defined() ? rows.q_TND : rotated_queries(c, rows.raw_q_TND), {}, {}};
  if (rows.q_TND.defined()) return {rows.q_TND, {{}, rows.q_rstd_TN1}, {{}, rows.k_rstd_TG1}};
  Queries result;
  result.q_norm = rms_normalize(as_normed(c, rows.raw_q_TND), c.rms_norm_eps);
  result.k_norm = rms_normalize(as_normed(c, rows.raw_k_TGD), c.rms_norm_eps);
  result.q_TND = rotate(
      at::mul(result.q_norm.n, c.parameters.q_norm_D.value).view(rows.raw_q_TND.sizes()), c.rope);
  return result;
}

}  // namespace slimpack
