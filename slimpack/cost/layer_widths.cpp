#include "slimpack/cost/layer_widths.h"

#include <algorithm>

#include "slimpack/cost/flash_transients.h"

namespace slimpack {
namespace {

/// The part of a layer that one of `tp` tensor-parallel ranks has. Every rank has a KV head.
LayerShape shape_of_rank(LayerShape layer, std::int32_t tp) {
  layer.num_heads = share_of(layer.num_heads, tp);
  layer.num_kv_heads = share_of(layer.num_kv_heads, tp);
  layer.dense_width = share_of(layer.dense_width, tp);
  return layer;
}

/// PackFlow's layer with as many heads, and with keys, values and MLP as wide.
LayerShape like_packflow(LayerShape layer) {
  layer.head_dim = layer.value_dim = (layer.head_dim + layer.value_dim + 1) / 2;
  layer.dense_width = layer.active_width();
  return layer;
}

}  // namespace

std::int64_t share_of(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

bool fused_kernels_take(const LayerShape& layer) {
  return layer.hidden_size % 8 == 0 && layer.hidden_size <= 8192 && layer.dense_width % 8 == 0 &&
         layer.head_dim % 16 == 0;
}

bool fused_head_takes(std::int64_t vocab_size) {
  return vocab_size % 8 == 0;
}

LayerWidths::LayerWidths(const LayerShape& layer, Dtype d, std::int32_t tp)
    : shape(shape_of_rank(layer, tp)),
      element(element_bytes(d)),
      accumulator(accumulator_bytes(d)),
      rounded(element != accumulator),
      hidden(share_of(element * layer.hidden_size, tp)),
      q(element * shape.q_width()),
      k(element * shape.k_width()),
      ffn(element * shape.dense_width),
      lse(accumulator * shape.num_heads),
      rstd(share_of(accumulator, tp)),
      qk_norm(layer.has_qk_norm() ? q + k + accumulator * (shape.num_heads + shape.num_kv_heads)
                                  : 0),
      row(2 * hidden + 2 * q + (layer.has_qk_norm() ? k : 0) + lse + 2 * ffn),
      gathered(tp > 1 ? element * layer.hidden_size : 0),
      index(tp > 1 ? sizeof(std::int64_t) : 0),
      rope(element * layer.head_dim) {}

LayerWidths::LayerWidths(const Decoder& decoder, std::size_t kind, Dtype d, std::int32_t tp)
    : LayerWidths(like_packflow(decoder.kinds[kind]), d, tp) {
  const LayerShape& layer = decoder.kinds[kind];
  vocab_size = share_of(decoder.vocab_size, tp);
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
  fused_head = flash() && gpu.fused_kernels && fused_head_takes(vocab_size);
  if (!fused) return;
  rstd = 0;  // backward computes 1 / rms again
  qk_norm = shape.has_qk_norm() ? q + k : 0;
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
