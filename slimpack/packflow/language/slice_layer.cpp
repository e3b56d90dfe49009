#include "slimpack/packflow/language/slice_layer.h"

#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {
namespace {

/// A weight as training's kernels take it, in the type of x.
Parameter parameter(const at::Tensor& value, const at::Tensor& x) {
  Parameter p;
  if (value.defined()) p.value = value.to(x.scalar_type());
  return p;
}

at::Tensor normed(const SlicePass& pass, const at::Tensor& x, const at::Tensor& weight) {
  return rms_norm(x, parameter(weight, x), pass.shape.rms_norm_eps);
}

/// 0 where a row sees a key, else −∞: [T, keys]. The own keys come after `before` others.
at::Tensor tree_mask(const OwnKeys& own, std::int64_t before, std::int64_t window,
                     const at::Tensor& like) {
  const at::Tensor mask = at::empty({own.rows(), before + own.rows()}, at::kDouble);
  auto added = mask.accessor<double, 2>();
  for (std::int64_t row = 0; row < own.rows(); ++row)
    for (std::int64_t key = -before; key < own.rows(); ++key)
      added[row][before + key] =
          own.sees(row, key, window) ? 0.0 : -std::numeric_limits<double>::infinity();
  return mask.to(like.device(), accumulate_type(like));
}

/// Attention of the rows on their own keys, along the tree, and on `before` keys before these, from
/// its definition.
AttentionResult attend_tree(const at::Tensor& q_TND, const KeysValues& kv, const OwnKeys& own,
                            std::int64_t before, std::int64_t window) {
  const std::int64_t groups = kv.k.size(1);
  const auto type = accumulate_type(q_TND);
  const at::Tensor q = q_TND.unflatten(1, {groups, -1}).to(type);
  const at::Tensor scores =
      at::einsum("tgsd,ugd->tgsu", {q, kv.k.to(type)})
          .div_(std::sqrt(static_cast<double>(q_TND.size(2))))
          .add_(tree_mask(own, before, window, q_TND).unsqueeze(1).unsqueeze(1));
  const at::Tensor out = at::einsum("tgsu,ugd->tgsd", {scores.softmax(-1), kv.v.to(type)});
  return {out.flatten(1, 2).to(q_TND.scalar_type()), at::logsumexp(scores, {-1}).flatten(1)};
}

at::Tensor attend(const SlicePass& pass, const at::Tensor& q_TND, const KeysValues& kv,
                  std::int64_t window) {
  const std::int64_t before = pass.cache.size(), rows = q_TND.size(0);
  // A window leaves out more than sparse attention would.
  if (pass.sparse != nullptr && window == 0) return pass.sparse->attend(q_TND, kv, Tokens(before));
  if (!pass.own.is_tree()) return attention_forward(q_TND, kv, Tokens(before), window).out_TND;
  if (window > 0) {
    const std::int64_t near = std::min(before, window - 1);
    return attend_tree(q_TND, kv.narrow(before - near, near + rows), pass.own, near, window)
        .out_TND;
  }
  AttentionResult own = attend_tree(q_TND, kv.narrow(before, rows), pass.own, 0, 0);
  if (before == 0) return own.out_TND;
  return merged(slimpack::attend(q_TND, kv.narrow(0, before), Mask::kNone), own).out_TND;
}

at::Tensor attention_block(const SlicePass& pass, const DecoderLayerWeights& weights,
                           std::size_t layer, const at::Tensor& x_TH) {
  const LayerShape& shape = pass.shape.layer(layer);
  fused::Heads raw = split_qkv(
      linear(normed(pass, x_TH, weights.attention_norm_H), parameter(weights.qkv.whole_OI(), x_TH),
             parameter(weights.qkv_bias_O, x_TH)),
      shape);
  if (shape.has_qk_norm()) {
    raw.q_TND = normed(pass, raw.q_TND, weights.q_norm_D);
    raw.k_TGD = normed(pass, raw.k_TGD, weights.k_norm_D);
  }
  const std::int64_t rows = x_TH.size(0);
  const KeysValues kv = pass.cache.rows(layer, pass.cache.size() + rows);
  const KeysValues own = kv.narrow(pass.cache.size(), rows);
  rotate(raw.k_TGD, pass.rope, own.k);
  own.v.copy_(raw.v_TGD);
  const at::Tensor q_TND = rotate(raw.q_TND, pass.rope);
  raw = {};
  return linear_onto(x_TH, attend(pass, q_TND, kv, shape.window).flatten(1),
                     parameter(weights.output.whole_OI(), x_TH),
                     parameter(weights.output_bias_H, x_TH));
}

}  // namespace

at::Tensor slice_layer(const SlicePass& pass, const DecoderLayerWeights& weights, std::size_t layer,
                       const at::Tensor& x_TH) {
  const at::Tensor middle_TH = attention_block(pass, weights, layer, x_TH);
  const at::Tensor act_TF = gated({linear(normed(pass, middle_TH, weights.mlp_norm_H),
                                          parameter(weights.gate_up.whole_OI(), x_TH),
                                          parameter(weights.gate_up_bias_O, x_TH))});
  return linear_onto(middle_TH, act_TF, parameter(weights.down.whole_OI(), x_TH),
                     parameter(weights.down_bias_H, x_TH));
}

}  // namespace slimpack
