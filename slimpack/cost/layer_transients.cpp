#include "slimpack/cost/layer_transients.h"

#include <algorithm>

namespace slimpack {
namespace {

/// Bytes of the hidden states (n ⊙ the norm's weight) that a weight's gradient multiplies. `weight`
/// is the size of the widened operands.
std::int64_t gathered_product(const LayerWidths& w, std::int64_t tokens, std::int64_t weight) {
  const std::int64_t own = w.gathered > 0 ? tokens * w.hidden : 0;  // until all are gathered
  return tokens * w.all_hidden() + std::max(own, weight);
}

/// The peak of a norm's backward: while the gradient of its output is summed over the ranks, or
/// then, while it lies beside the norm's own tensors.
std::int64_t norm_backward(const LayerWidths& w) {
  return std::max(w.summed(), w.hidden + w.normalize_backward(w.hidden));
}

/// The peak of a fused norm's backward: while the gradient of its output is summed over the ranks,
/// or then, beside n ⊙ weight. dx takes dy's place.
std::int64_t fused_norm_backward(const LayerWidths& w, std::int64_t tokens) {
  return std::max(tokens * w.summed(), tokens * 2 * w.hidden + w.norm_sums(tokens));
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
  if (w.fused) return fused_mlp_backward(w, tokens, kept);
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
  const std::int64_t norm = tokens * (kept.act + kept.gate_up + w.hidden + norm_backward(w));
  const std::int64_t products = kept.any() ? 0 : std::max(down, gate_up);
  return tokens * (w.hidden + 2 * w.copies) +
         std::max({products, gradient_in, act, normalize, gradient_out, norm});
}

/// The peak of recomputation, with which backward begins. Recomputed rows count as dropped.
/// Of its steps only attention can exceed the rest of backward.
std::int64_t attention_again(const LayerWidths& w, const MicroPack& pack, Recompute recompute) {
  if (recompute != Recompute::kAttention && recompute != Recompute::kFull) return 0;
  const std::int64_t tokens = pack.tokens().count();
  // dy; q as attention sees it beside q and k before their norms; what is still to come.
  const std::int64_t rotated = w.shape.has_qk_norm() ? w.q : 0;
  const std::int64_t to_come = recompute == Recompute::kFull ? w.hidden + 2 * w.ffn : 0;
  return tokens * (w.hidden + rotated - to_come) + attention_forward_transient(w, pack);
}

/// Bytes that a forward holds beyond its rows until attention is done. Fused kernels write q, k and
/// v as they are read, so the projection itself is gone.
std::int64_t attention_inputs(const LayerWidths& w) {
  return w.fused ? 2 * w.k : w.q + 3 * w.k;
}

/// Bytes that an action holds all the time: the positions of rows of several slices, and row
/// numbers.
std::int64_t action_bytes(const LayerWidths& w, const MicroPack& pack) {
  return pack.tokens().count() * (w.index + (pack.slices.size() > 1 ? w.rope : 0));
}

/// Logits in the compute type, whose place their gradient takes.
std::int64_t fused_head_transient(const LayerWidths& w, std::int64_t tokens, std::int64_t rows) {
  constexpr std::int64_t kTarget = sizeof(std::int64_t);
  const std::int64_t logits = rows * w.element * w.vocab_size;
  // Log-sum-exp and the target's logit, validity and the weight of a row.
  if (w.gathered == 0)
    return tokens * (w.hidden + kTarget) +
           std::max(logits + rows * (w.hidden + 4 * w.accumulator), w.norm_sums(tokens));
  const std::int64_t in_block =
      tokens * w.gathered + rows * 10 * w.accumulator + logits + rows * w.gathered;
  return tokens * (w.hidden + kTarget + w.index) +
         std::max(in_block, tokens * w.summed() + w.norm_sums(tokens));
}

}  // namespace

// Moments: attention with everything before it; the norm after it; the MLP.
std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                     Recompute recompute, const ExchangeSide* exchange) {
  const std::int64_t tokens = pack.tokens().count();
  const bool keeps_results = recompute == Recompute::kNothing;
  const std::int64_t whole = w.kept(recompute) + w.dropped(recompute);
  const std::int64_t product = keeps_results ? 0 : w.ffn;  // silu(gate) ⊙ up, unless it is a row
  const std::int64_t mlp_rows = 2 * w.ffn + (keeps_results ? w.ffn + w.rstd : 0);
  // With q norms, attention's q is another tensor than the row's q.
  const std::int64_t rotated = w.shape.has_qk_norm() && !keeps_results ? w.q : 0;
  const std::int64_t before_middle = whole - mlp_rows - w.hidden;
  const std::int64_t attention =
      tokens * (before_middle + rotated + attention_inputs(w)) +
      std::max(attention_forward_transient(w, pack, exchange), tokens * w.summed());
  const std::int64_t norm =
      tokens * (whole - mlp_rows + (w.fused ? w.hidden : w.normalize(w.hidden)));
  // Tokens go to experts as copies of their hidden states, and come back as such.
  const std::int64_t mlp = tokens * (whole + product + w.summed() + 2 * w.copies);
  return std::max({attention, norm, mlp}) - tokens * w.kept(recompute) + action_bytes(w, pack);
}

PutOffWidths put_off_widths(const LayerWidths& w, Recompute recompute, bool views) {
  const bool out_is_row = recompute != Recompute::kAttention && recompute != Recompute::kFull;
  PutOffWidths widths{.gate_up = 2 * w.ffn, .norm = w.hidden, .qkv = w.q + 2 * w.k};
  if (w.fused || views || recompute != Recompute::kNothing) widths.act = w.ffn;
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
  const std::int64_t queries = q_is_row ? 0 : w.q + (w.fused ? 0 : w.qk_norm);
  const std::int64_t in_slices = held + kept + tokens * (w.q + queries);
  LayerStores stores;
  for (const Slice& s : pack.slices) {
    stores.open(w, s, lengths[s.sequence.index()]);
    stores.close(w, s, lengths[s.sequence.index()]);
  }
  const std::int64_t slices = attention_backward_transient(w, pack, lengths, exchange);
  const bool undoes_norms = w.shape.has_qk_norm() && !w.fused;
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
  const std::int64_t normalize = w.fused ? 0 : tokens * (dqkv + w.normalize(w.hidden));
  const std::int64_t norm = w.fused ? tokens * dqkv + fused_norm_backward(w, tokens)
                                    : tokens * (put_off.qkv + w.hidden + norm_backward(w));
  const std::int64_t before = std::max(
      {attention_again(w, pack, recompute), mlp_backward(w, tokens, recompute, put_off), output});
  const std::int64_t after =
      std::max(in_slices + tokens * dqkv + undo,
               held + kept + std::max({put_off.any() ? 0 : qkv, gradient, normalize, norm}));
  return std::max({std::int64_t{0}, before - stores.opened, in_slices + slices - stores.opened,
                   after - stores.closed}) +
         tokens * w.dropped(recompute) + action_bytes(w, pack);
}

std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens) {
  const LayerShape& s = w.shape;
  const std::int64_t gathered = tokens * w.gathered;
  // In the order in which they run. Each frees its operands. Normalised inputs are multiplied by
  // the norm's weight.
  const std::int64_t down = gathered + w.weight(tokens, s.hidden_size, s.dense_width);
  const std::int64_t after_down = tokens * (w.ffn + w.hidden);
  const std::int64_t gate_up =
      gathered_product(w, tokens, w.weight(tokens, 2 * s.dense_width, s.hidden_size));
  const std::int64_t after_gate_up = after_down + tokens * (w.hidden + 2 * w.ffn);
  const std::int64_t output = gathered + w.weight(tokens, s.hidden_size, s.q_width());
  const std::int64_t after_output = after_gate_up + tokens * (w.q + w.hidden);
  const std::int64_t qkv =
      gathered_product(w, tokens, w.weight(tokens, s.q_width() + 2 * s.k_width(), s.hidden_size));
  return std::max({std::int64_t{0}, down, gate_up - after_down, output - after_gate_up,
                   qkv - after_output}) +
         tokens * w.index;
}

std::int64_t head_transient(const LayerWidths& w, std::int64_t tokens, Tokens block) {
  constexpr std::int64_t kTarget = sizeof(std::int64_t);
  const std::int64_t rows = std::min(tokens, block.count());
  const std::int64_t logits = rows * w.accumulator * w.vocab_size;
  const std::int64_t softmax = 2 * logits;  // log-sum-exp works on a copy
  if (w.fused_head) return fused_head_transient(w, tokens, rows);
  // The gradient of the logits takes their place, or, where it is rounded, is another tensor.
  const std::int64_t dlogits = rows * w.element * w.vocab_size;
  const std::int64_t rounding = w.rounded ? logits + dlogits : 0;
  const std::int64_t gradient =
      std::max(rounding, dlogits + w.weight(rows, w.vocab_size, w.shape.hidden_size));
  if (w.gathered == 0) {
    // Clamped targets; 1 / rms, validity, largest logit and log-sum-exp; n and n ⊙ weight.
    const std::int64_t held = rows * (kTarget + 4 * w.accumulator + 2 * w.hidden);
    const std::int64_t norm = dlogits + rows * (w.hidden + w.normalize_backward(w.hidden));
    return tokens * (w.hidden + kTarget) + held + std::max({softmax, gradient, norm});
  }
  // For a block: clamped targets, validity, and what the ranks exchange, two of each. For all rows:
  // n ⊙ weight, which its gradient replaces.
  const std::int64_t held = rows * (kTarget + 10 * w.accumulator);
  const std::int64_t in_block =
      tokens * w.gathered + held + std::max({softmax, gradient, dlogits + rows * w.gathered});
  return tokens * (w.hidden + w.rstd + kTarget + w.index) +
         std::max(in_block, tokens * norm_backward(w));
}

}  // namespace slimpack
