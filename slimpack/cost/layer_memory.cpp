// Bytes that an action of a layer holds beyond the rows that stay. T, t and p are the tokens of the
// MicroPack, of a slice and of its prefix; H, Q, K, F the widths of hidden states, of all query and
// key heads and of the MLP, N the query heads, V the vocabulary; e and a the bytes of a number and
// of an accumulated one. The largest moment counts.
//
//   forward   attention    q, k, v T·e(Q + 2K) and rotated keys T·eK; of a slice with a prefix two
//                          results, merged t·(eQ + 4aN); outputs of several slices T·(eQ + aN)
//             MLP          silu(gate) ⊙ up T·eF, unless it is a row, and the output T·eH
//             any          rows that the policy drops; offloaded rows of the layer before
//   backward  all          dy T·eH; rows that are copied, computed again or fetched
//             MLP          3T·eF; then T·e(2F + 2H); in the norm 4T·eH
//             attention    dmiddle, dout, dqkv T·e(H + 2Q + 2K); the kernel's dQ, dK, dV and lse
//                          t·(e(Q + 2K) + aN), for the prefix t·eQ + 2p·eK; below 768 tokens, where
//                          query heads share a key head, folded heads t·(3eQ + aN)
//             projections  dmiddle, dqkv, the normalised input and its gradient; then 4T·eH
//             head         dx and targets T·(eH + 8); for a block of r rows 2r·aV, or r·eV and the
//                          norm
//
// Fused kernels: q, k, v replace the projection; the MLP's 3T·eF stays to its end; a norm takes
// 2T·eH and sums; logits stay in bf16, r·eV, with four times the rows. Tensor-parallel ranks gather
// hidden states T·eH and sum over the ranks T·eH and two own parts. Of merged MicroPacks T counts
// the replica's own rows; queries of one other replica visit at a time, T·(2eQ + aN), backward
// T·(3eQ + aN) and dQ. Experts have P pairs of a token and an expert: places 16P; forward
// P·eH + 2T·eF, then both orders of gate and up and the activation, T·eF + P·eH, 2P·eH; backward
// gate and up sorted by expert, dy of the pairs and their product, 2T·eF and 2P·eH of gradients.
#include "slimpack/cost/layer_memory.h"

#include <algorithm>

#include "slimpack/cost/attention_memory.h"

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

/// Bytes of the hidden states (n ⊙ the norm's weight) that a weight's gradient multiplies. `weight`
/// is the size of the widened operands.
std::int64_t gathered_product(const LayerWidths& w, std::int64_t tokens, std::int64_t weight) {
  const std::int64_t own = w.gathered > 0 ? tokens * w.hidden : 0;  // until all are gathered
  return tokens * w.all_hidden() + std::max(own, weight);
}

/// The peak of a fused norm's backward: while the gradient of its output is summed over the ranks,
/// or then, beside n ⊙ weight. dx takes dy's place.
std::int64_t fused_norm_backward(const LayerWidths& w, std::int64_t tokens) {
  return std::max(tokens * w.summed(), tokens * 2 * w.hidden + w.norm_sums(tokens));
}

bool gate_up_again(Recompute recompute) {
  return recompute == Recompute::kMlp || recompute == Recompute::kFull;
}

/// Whether rows of gate and up wait for backward on the device.
bool gate_up_stays(Recompute recompute) {
  return !gate_up_again(recompute) && recompute != Recompute::kOffload;
}

/// Bytes of the rows that a layer's backward fetches or computes again and holds to its end. Gate
/// and up of experts are not among them: they live in the backward of the MLP alone.
std::int64_t restored(const LayerWidths& w, Recompute recompute) {
  const bool brief = w.shape.experts > 0 && !gate_up_stays(recompute);
  return w.dropped(recompute) - (brief ? 2 * w.ffn : 0);
}

/// Gate and up of experts while backward computes them again, or sorts fetched ones.
std::int64_t experts_again(const LayerWidths& w, Recompute recompute) {
  if (gate_up_stays(recompute)) return 0;
  if (recompute == Recompute::kOffload) return 2 * (2 * w.ffn);
  return 2 * w.ffn + w.hidden + w.experts.copies + w.gathered;
}

/// The MLP of experts in backward (packflow/layer/experts.h), beyond the stores.
std::int64_t experts_backward(const LayerWidths& w, std::int64_t tokens, Recompute recompute,
                              const PutOffWidths& kept) {
  const LayerShape& s = w.shape;
  const std::int64_t sorted = 2 * w.ffn;  // gate and up by expert, beside rows
  const std::int64_t copies = w.experts.copies;
  const std::int64_t again = tokens * experts_again(w, recompute);
  const std::int64_t gradient_in =
      tokens * (sorted + w.ffn + std::max(copies + w.gathered, 2 * w.ffn));
  const std::int64_t act = tokens * (kept.act + sorted + 3 * w.ffn);
  const std::int64_t gradient_out =
      tokens * (kept.act + 2 * w.ffn + w.hidden + std::max(2 * copies, copies + w.gathered));
  const std::int64_t norm = tokens * (kept.act + kept.gate_up + w.hidden + w.norm_backward());
  const std::int64_t down =
      tokens * (sorted + 2 * w.ffn + copies) + w.weight(tokens, s.hidden_size, s.expert_width);
  const std::int64_t gate_up =
      tokens * (2 * w.ffn + w.hidden + copies) +
      gathered_product(w, tokens, w.weight(tokens, 2 * s.expert_width, s.hidden_size));
  const std::int64_t products = kept.any() ? 0 : std::max(down, gate_up);
  return tokens * (w.hidden + w.experts.places()) +
         std::max({products, again, gradient_in, act, gradient_out, norm});
}

/// The peak of experts in forward beyond the rows before them.
std::int64_t experts_forward(const LayerWidths& w, std::int64_t tokens, Recompute recompute) {
  const std::int64_t gate_up_row = gate_up_again(recompute) ? 0 : 2 * w.ffn;
  const std::int64_t rows = gate_up_row + (recompute == Recompute::kNothing ? w.ffn + w.rstd() : 0);
  const std::int64_t copies = w.experts.copies;
  const std::int64_t gate_up = copies + 2 * w.ffn;
  const std::int64_t act = gate_up_row + 3 * w.ffn;
  const std::int64_t down = rows + w.ffn + copies;
  const std::int64_t sum = rows + copies + std::max(copies, w.summed());
  return tokens * (w.experts.router + w.experts.choice + w.experts.places() +
                   std::max({gate_up, act, down, sum}));
}

/// silu(gate) ⊙ up takes the place of its gradient, and the gradients of weights come last.
std::int64_t fused_mlp_backward(const LayerWidths& w, std::int64_t tokens,
                                const PutOffWidths& kept) {
  const std::int64_t down = tokens * (3 * w.ffn + w.gathered);
  const std::int64_t norm = tokens * (kept.act + 2 * w.ffn) + fused_norm_backward(w, tokens);
  const std::int64_t gate_up =
      kept.any() ? 0 : tokens * (2 * w.ffn + w.hidden) + gathered_product(w, tokens, 0);
  return tokens * w.hidden + std::max({down, norm, gate_up});
}

std::int64_t mlp_backward(const LayerWidths& w, std::int64_t tokens, Recompute recompute,
                          const PutOffWidths& kept) {
  if (w.shape.experts > 0) return experts_backward(w, tokens, recompute, kept);
  if (w.runtime.fused) return fused_mlp_backward(w, tokens, kept);
  const std::int64_t product = recompute == Recompute::kNothing ? 0 : w.ffn;
  const std::int64_t down =
      tokens * (product + w.gathered) + w.weight(tokens, w.shape.hidden_size, w.shape.dense_width);
  const std::int64_t gradient_in = tokens * (kept.act + w.ffn + w.gathered);
  const std::int64_t act = tokens * (kept.act + 3 * w.ffn);
  const std::int64_t normalize = tokens * (kept.act + 2 * w.ffn + w.normalize(w.hidden));
  const std::int64_t gate_up =
      tokens * (2 * w.ffn + w.hidden) +
      gathered_product(w, tokens, w.weight(tokens, 2 * w.shape.dense_width, w.shape.hidden_size));
  const std::int64_t gradient_out = tokens * (kept.act + 2 * w.ffn + w.hidden + w.gathered);
  const std::int64_t norm = tokens * (kept.act + kept.gate_up + w.hidden + w.norm_backward());
  const std::int64_t products = kept.any() ? 0 : std::max(down, gate_up);
  return tokens * w.hidden + std::max({products, gradient_in, act, normalize, gradient_out, norm});
}

/// The peak of recomputation, with which backward begins. Recomputed rows count as dropped.
/// Of its steps only attention can exceed the rest of backward.
std::int64_t attention_again(const LayerWidths& w, const MicroPack& pack, Recompute recompute) {
  if (recompute != Recompute::kAttention && recompute != Recompute::kFull) return 0;
  const std::int64_t tokens = pack.tokens().count();
  // dy; q as attention sees it beside q and k before their norms; what is still to come.
  const std::int64_t rotated = w.shape.has_qk_norm() ? w.q : 0;
  const std::int64_t gate_up = w.shape.experts > 0 ? 0 : 2 * w.ffn;
  const std::int64_t to_come =
      recompute == Recompute::kFull ? w.hidden + gate_up + w.experts.router : 0;
  return tokens * (w.hidden + rotated - to_come) + attention_forward_transient(w, pack);
}

/// Bytes that a forward holds beyond its rows until attention is done. Fused kernels write q, k and
/// v as they are read, so the projection itself is gone.
std::int64_t attention_inputs(const LayerWidths& w) {
  return w.runtime.fused ? 2 * w.k : w.q + 3 * w.k;
}

/// Bytes that an action holds all the time: the positions of rows of several slices, and row
/// numbers.
std::int64_t action_bytes(const LayerWidths& w, const MicroPack& pack) {
  return pack.tokens().count() * (w.index() + (pack.slices.size() > 1 ? w.rope() : 0));
}

}  // namespace

std::int64_t share_of(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

bool fused_kernels_take(const LayerShape& layer) {
  return layer.hidden_size % 8 == 0 && layer.hidden_size <= 8192 && layer.dense_width % 8 == 0 &&
         layer.head_dim % 16 == 0;
}

bool flash_takes(std::int64_t head_dim) {
  return head_dim % 8 == 0 && head_dim <= 256;
}

LayerWidths::LayerWidths(const LayerShape& layer, Dtype d, std::int32_t ranks)
    : shape(shape_of_rank(layer, ranks)),
      tp(ranks),
      element(element_bytes(d)),
      accumulator(accumulator_bytes(d)),
      hidden(share_of(element * layer.hidden_size, tp)),
      q(element * shape.q_width()),
      k(element * shape.k_width()),
      ffn(element * shape.dense_width),
      lse(accumulator * shape.num_heads),
      gathered(tp > 1 ? element * layer.hidden_size : 0) {}

LayerWidths::LayerWidths(const Decoder& decoder, std::size_t kind, Dtype d, std::int32_t ranks)
    : LayerWidths(like_packflow(decoder.kinds[kind]), d, ranks) {
  const LayerShape& layer = decoder.kinds[kind];
  const std::int64_t output_norm = layer.norms > 2 ? hidden : 0;
  const std::int64_t latents = layer.q_rank + layer.kv_rank + layer.shared_key_dim;
  extra = {.attention = share_of(element * latents, tp) + output_norm, .mlp = output_norm};
  constexpr std::int64_t kNumber = sizeof(std::int64_t);
  experts = {.router = share_of(accumulator * layer.experts, tp),
             .choice = share_of(kNumber * layer.experts_per_token, tp),
             .copies = share_of(element * layer.experts_per_token * layer.hidden_size, tp)};
}

void LayerWidths::run_on(const GpuMemory& gpu) {
  if (!rounded()) return;
  if (flash_takes(shape.head_dim)) runtime.multiprocessors = gpu.multiprocessors;
  runtime.flash_release = gpu.flash_attention;
  runtime.fused_kernels = flash() && gpu.fused_kernels;
  runtime.fused = runtime.fused_kernels && fused_kernels_take(shape);
}

std::int64_t LayerWidths::kept(Recompute recompute) const {
  switch (recompute) {
    case Recompute::kNothing:
      // 1 / rms of the norms, q after them besides q before, and silu(gate) ⊙ up.
      return row() + ffn + 2 * rstd() + (qk_norm() > 0 ? qk_norm() - k : 0);
    case Recompute::kElementwise:
      return row();
    case Recompute::kAttention:
      return 2 * hidden + 2 * ffn + extra.mlp + experts.router + experts.choice;
    case Recompute::kMlp:
      return row() - 2 * ffn - extra.mlp - experts.router;
    case Recompute::kFull:
      return hidden + experts.choice;
    case Recompute::kOffload:
      return 0;
  }
  return 0;
}

std::int64_t LayerWidths::joined(Recompute recompute) const {
  return kept(recompute) - (gate_up_stays(recompute) ? 2 * ffn : 0);
}

std::int64_t LayerWidths::dropped(Recompute recompute) const {
  return std::max<std::int64_t>(0, row() - kept(recompute));
}

std::int64_t LayerWidths::weight_operands() const {
  const std::int64_t qkv = hidden + q + 2 * k;  // x, dqkv
  const std::int64_t output = q + hidden;       // out, dmiddle
  const std::int64_t gate_up = hidden + 2 * ffn;
  const std::int64_t down = ffn + hidden;  // silu(gate) ⊙ up, dy
  const std::int64_t router = element * shape.experts + experts.places();
  return qkv + output + gate_up + down + (shape.experts > 0 ? router : 0);
}

std::int64_t LayerWidths::tile(Tokens queries, Tokens keys) const {
  const std::int64_t rows = queries.count() >= 768 ? 256 : queries.count() >= 192 ? 64 : 32;
  return std::min(queries.count(), rows) * std::min<std::int64_t>(keys.count(), 512) *
         (accumulator + (rounded() ? element : 0));
}

std::int64_t LayerWidths::folded_heads(Tokens queries) const {
  return queries.count() >= 768 ? 1 : shape.num_heads / shape.num_kv_heads;
}

// Moments: attention with everything before it; the norm after it; the MLP.
std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                     Recompute recompute, const ExchangeSide* exchange) {
  const std::int64_t tokens = pack.tokens().count();
  const bool keeps_results = recompute == Recompute::kNothing;
  const std::int64_t whole = w.kept(recompute) + w.dropped(recompute);
  const std::int64_t product = keeps_results ? 0 : w.ffn;  // silu(gate) ⊙ up, unless it is a row
  const std::int64_t mlp_rows =
      2 * w.ffn + w.experts.router + w.experts.choice + (keeps_results ? w.ffn + w.rstd() : 0);
  // With q norms, attention's q is another tensor than the row's q.
  const std::int64_t rotated = w.shape.has_qk_norm() && !keeps_results ? w.q : 0;
  const std::int64_t before_middle = whole - mlp_rows - w.hidden;
  const std::int64_t attention =
      tokens * (before_middle + rotated + attention_inputs(w)) +
      std::max(attention_forward_transient(w, pack, exchange), tokens * w.summed());
  const std::int64_t norm =
      tokens * (whole - mlp_rows + (w.runtime.fused ? w.hidden : w.normalize(w.hidden)));
  const std::int64_t mlp = w.shape.experts > 0
                               ? tokens * (whole - mlp_rows) + experts_forward(w, tokens, recompute)
                               : tokens * (whole + product + w.summed());
  return std::max({attention, norm, mlp}) - tokens * w.kept(recompute) + action_bytes(w, pack);
}

PutOffWidths put_off_widths(const LayerWidths& w, Recompute recompute, bool views) {
  const bool out_is_row = recompute != Recompute::kAttention && recompute != Recompute::kFull;
  PutOffWidths widths{
      .gate_up = 2 * w.ffn + w.element * w.shape.experts, .norm = w.hidden, .qkv = w.q + 2 * w.k};
  if (w.runtime.fused || views || recompute != Recompute::kNothing || w.shape.experts > 0)
    widths.act = w.ffn;
  if (views && out_is_row) widths.out = w.q;
  return widths;
}

std::int64_t layer_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                      const SequenceLengths& lengths, Recompute recompute,
                                      const PutOffWidths& put_off, const ExchangeSide* exchange) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t dqkv = w.q + 2 * w.k;
  const std::int64_t held = tokens * 2 * w.hidden;  // dy and dmiddle
  const std::int64_t kept = tokens * (put_off.act + put_off.gate_up + put_off.norm + put_off.out);
  // Normalised q and k, and q as attention sees it, unless the last is a row. Then each of the
  // others is made for its own norm's backward. Fused kernels need only the last.
  const bool q_is_row = !w.shape.has_qk_norm() || recompute == Recompute::kNothing;
  const std::int64_t queries = q_is_row ? 0 : w.q + (w.runtime.fused ? 0 : w.qk_norm());
  const std::int64_t in_slices = held + kept + tokens * (w.q + queries);
  LayerStores stores;
  for (const Slice& s : pack.slices) {
    stores.open(w, s, lengths[s.sequence.index()]);
    stores.close(w, s, lengths[s.sequence.index()]);
  }
  const std::int64_t slices = attention_backward_transient(w, pack, lengths, exchange);
  const bool undoes_norms = w.shape.has_qk_norm() && !w.runtime.fused;
  const std::int64_t undo =
      undoes_norms ? tokens * (w.normalize_backward(w.q) + (q_is_row ? w.q : 0)) : 0;
  const std::int64_t output =
      held + tokens * w.gathered +
      std::max(put_off.any() ? 0 : w.weight(tokens, w.shape.hidden_size, w.shape.q_width()),
               kept + tokens * w.q);
  const std::int64_t qkv =
      tokens * (dqkv + w.hidden) +
      gathered_product(
          w, tokens,
          w.weight(tokens, w.shape.q_width() + 2 * w.shape.k_width(), w.shape.hidden_size));
  const std::int64_t gradient = tokens * (dqkv + w.hidden + w.gathered);
  const std::int64_t normalize = w.runtime.fused ? 0 : tokens * (dqkv + w.normalize(w.hidden));
  const std::int64_t norm = w.runtime.fused ? tokens * dqkv + fused_norm_backward(w, tokens)
                                            : tokens * (put_off.qkv + w.hidden + w.norm_backward());
  const std::int64_t before = std::max(
      {attention_again(w, pack, recompute), mlp_backward(w, tokens, recompute, put_off), output});
  const std::int64_t after =
      std::max(in_slices + tokens * dqkv + undo,
               held + kept + std::max({put_off.any() ? 0 : qkv, gradient, normalize, norm}));
  return std::max({std::int64_t{0}, before - stores.opened, in_slices + slices - stores.opened,
                   after - stores.closed}) +
         tokens * restored(w, recompute) + action_bytes(w, pack);
}

std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens) {
  const LayerShape& s = w.shape;
  const std::int64_t gathered = tokens * w.gathered;
  const std::int64_t copies = tokens * w.experts.copies;  // of the side of hidden states
  const std::int64_t width = s.experts > 0 ? s.expert_width : s.dense_width;
  // In the order in which they run. Each frees its operands. Normalised inputs are multiplied by
  // the norm's weight.
  const std::int64_t down = gathered + copies + w.weight(tokens, s.hidden_size, width);
  const std::int64_t after_down = tokens * (w.ffn + w.hidden);
  const std::int64_t gate_up =
      copies + gathered_product(w, tokens, w.weight(tokens, 2 * width, s.hidden_size));
  const std::int64_t after_gate_up = after_down + tokens * (w.hidden + 2 * w.ffn);
  const std::int64_t output = gathered + w.weight(tokens, s.hidden_size, s.q_width());
  const std::int64_t after_output = after_gate_up + tokens * (w.q + w.hidden);
  const std::int64_t qkv =
      gathered_product(w, tokens, w.weight(tokens, s.q_width() + 2 * s.k_width(), s.hidden_size));
  return std::max({std::int64_t{0}, down, gate_up - after_down, output - after_gate_up,
                   qkv - after_output}) +
         tokens * w.index();
}

}  // namespace slimpack
