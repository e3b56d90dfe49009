#include "slimpack/cost/layer_widths.h"

#include <algorithm>

#include "slimpack/cost/flash_transients.h"

namespace slimpack {
namespace {

/// The part of a model that one of `tp` tensor-parallel ranks has. Every rank has a KV head.
ModelShape shape_of_rank(ModelShape shape, std::int32_t tp) {
  shape.num_heads = share_of(shape.num_heads, tp);
  shape.num_kv_heads = share_of(shape.num_kv_heads, tp);
  shape.intermediate_size = share_of(shape.intermediate_size, tp);
  shape.vocab_size = share_of(shape.vocab_size, tp);
  return shape;
}

/// PackFlow's layer with as many heads, and with keys, values and MLP as wide.
ModelShape like_packflow(const DecoderShape& model, const LayerShape& layer) {
  ModelShape shape = model;
  shape.num_heads = layer.num_heads;
  shape.num_kv_heads = layer.num_kv_heads;
  shape.head_dim = (layer.head_dim + layer.value_dim + 1) / 2;
  shape.intermediate_size = layer.active_width();
  shape.qk_norm = layer.qk_norm != QkNorm::kNone;
  return shape;
}

}  // namespace

std::int64_t share_of(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

bool fused_kernels_take(const ModelShape& shape) {
  return shape.hidden_size % 8 == 0 && shape.hidden_size <= 8192 &&
         shape.intermediate_size % 8 == 0 && shape.head_dim % 16 == 0;
}

bool fused_head_takes(const ModelShape& shape) {
  return shape.vocab_size % 8 == 0;
}

LayerWidths::LayerWidths(const ModelShape& s, Dtype d, std::int32_t tp)
    : shape(shape_of_rank(s, tp)),
      element(element_bytes(d)),
      accumulator(accumulator_bytes(d)),
      rounded(element != accumulator),
      hidden(share_of(element * s.hidden_size, tp)),
      q(element * shape.q_width()),
      k(element * shape.kv_width()),
      ffn(element * shape.intermediate_size),
      lse(accumulator * shape.num_heads),
      rstd(share_of(accumulator, tp)),
      qk_norm(s.qk_norm ? q + k + accumulator * (shape.num_heads + shape.num_kv_heads) : 0),
      row(2 * hidden + 2 * q + (s.qk_norm ? k : 0) + lse + 2 * ffn),
      gathered(tp > 1 ? element * s.hidden_size : 0),
      index(tp > 1 ? sizeof(std::int64_t) : 0),
      rope(element * s.head_dim) {}

LayerWidths::LayerWidths(const DecoderShape& s, std::size_t kind, Dtype d, std::int32_t tp)
    : LayerWidths(like_packflow(s, s.layer(kind)), d, tp) {
  const LayerShape layer = s.layer(kind);
  const std::int64_t output_norm = layer.norms > 2 ? hidden : 0;
  const std::int64_t latents = layer.q_rank + layer.kv_rank + layer.shared_key_dim;
  attention_extra = share_of(element * latents, tp) + output_norm;
  mlp_extra = share_of(accumulator * layer.experts, tp) + output_norm;
  copies = share_of(element * layer.experts_per_token * layer.hidden_size, tp);
  row += attention_extra + mlp_extra;
}

void LayerWidths::run_on(const GpuMemory& gpu) {
  if (!rounded) return;
  if (flash_takes(shape.head_dim)) multiprocessors = gpu.multiprocessors;
  flash_release = gpu.flash_attention;
  fused = flash() && gpu.fused_kernels && fused_kernels_take(shape);
  fused_head = flash() && gpu.fused_kernels && fused_head_takes(shape);
  if (!fused) return;
  rstd = 0;  // backward computes 1 / rms again
  qk_norm = shape.qk_norm ? q + k : 0;
}

std::int64_t LayerWidths::kept(Recompute recompute) const {
  switch (recompute) {
    case Recompute::kNothing:
      // 1 / rms of the norms, q after them besides q before, and silu(gate) ⊙ up.
      return row + ffn + 2 * rstd + (qk_norm > 0 ? qk_norm - k : 0);
    case Recompute::kElementwise:
      return row;
    case Recompute::kAttention:
      return 2 * hidden + 2 * ffn + mlp_extra;
    case Recompute::kMlp:
      return row - 2 * ffn - mlp_extra;
    case Recompute::kFull:
      return hidden;
    case Recompute::kOffload:
      return 0;
  }
  return 0;
}

std::int64_t LayerWidths::joined(Recompute recompute) const {
  const bool has_gate_up = recompute == Recompute::kNothing ||
                           recompute == Recompute::kElementwise ||
                           recompute == Recompute::kAttention;
  return kept(recompute) - (has_gate_up ? 2 * ffn : 0);
}

std::int64_t LayerWidths::dropped(Recompute recompute) const {
  return std::max<std::int64_t>(0, row - kept(recompute));
}

std::int64_t LayerWidths::weight_operands() const {
  const std::int64_t qkv = hidden + q + 2 * k;  // x, dqkv
  const std::int64_t output = q + hidden;       // out, dmiddle
  const std::int64_t gate_up = hidden + 2 * ffn;
  const std::int64_t down = ffn + hidden;  // silu(gate) ⊙ up, dy
  return qkv + output + gate_up + down;
}

std::int64_t LayerWidths::tile(Tokens queries, Tokens keys) const {
  const std::int64_t rows = queries.count() >= 768 ? 256 : queries.count() >= 192 ? 64 : 32;
  return std::min(queries.count(), rows) * std::min<std::int64_t>(keys.count(), 512) *
         (accumulator + (rounded ? element : 0));
}

std::int64_t LayerWidths::folded_heads(Tokens queries) const {
  return queries.count() >= 768 ? 1 : shape.num_heads / shape.num_kv_heads;
}

}  // namespace slimpack
