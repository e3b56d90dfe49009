#include "slimpack/cost/memory_model.h"

#include <algorithm>
#include <cmath>

#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

std::int64_t share(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

/// What one of `tp` tensor-parallel ranks has of a model: every rank at least one KV head.
ModelShape shape_of_rank(ModelShape shape, std::int32_t tp) {
  shape.num_heads = share(shape.num_heads, tp);
  shape.num_kv_heads = share(shape.num_kv_heads, tp);
  shape.intermediate_size = share(shape.intermediate_size, tp);
  shape.vocab_size = share(shape.vocab_size, tp);
  return shape;
}

/// Byte widths of one token's tensors, named like the runtime's tensors (docs/row-store.md).
struct Widths {
  Widths(const ModelShape& s, Dtype d, std::int32_t tp = 1, Recompute recompute = Recompute::kNone)
      : shape(shape_of_rank(s, tp)),
        element(element_bytes(d)),
        accumulator(accumulator_bytes(d)),
        rounded(element != accumulator),
        hidden(share(element * s.hidden_size, tp)),
        q(element * shape.q_width()),
        k(element * shape.kv_width()),
        ffn(element * shape.intermediate_size),
        lse(accumulator * shape.num_heads),
        row(2 * hidden + 2 * q + (s.qk_norm ? k : 0) + lse + 2 * ffn),
        dropped(dropped_by(recompute)),
        gathered(2 * (element * s.hidden_size - hidden)),
        rope(element * s.head_dim) {}

  /// Of a row, what forward does not keep.
  [[nodiscard]] std::int64_t dropped_by(Recompute recompute) const {
    const std::int64_t attention = row - 2 * hidden - 2 * ffn;
    switch (recompute) {
      case Recompute::kNone:
        return 0;
      case Recompute::kAttention:
        return attention;
      case Recompute::kMlp:
        return 2 * ffn;
      case Recompute::kFull:
        return row - hidden;
    }
    return 0;
  }
  [[nodiscard]] std::int64_t kept() const { return row - dropped; }
  /// What a layer's weight gradients need once its input gradients are done, by weight: what its
  /// input is computed from, and the gradient of its output.
  [[nodiscard]] std::int64_t weight_operands() const {
    const std::int64_t qkv = hidden + q + 2 * k;  // x, dqkv
    const std::int64_t output = q + hidden;       // out, dmiddle
    const std::int64_t gate_up = hidden + 2 * ffn;
    const std::int64_t down = ffn + hidden;  // silu(gate) ⊙ up, dy
    return qkv + output + gate_up + down;
  }

  /// What rms_normalize holds at most beyond its input: the result; if it is rounded, input and
  /// result in the accumulate type.
  [[nodiscard]] std::int64_t normalize(std::int64_t width) const {
    return rounded ? 2 * width / element * accumulator : width;
  }
  /// What rms_norm_backward holds at most beyond dy and n: dy ⊙ n and dx; if dx is to be rounded,
  /// one of its operands in the accumulate type too.
  [[nodiscard]] std::int64_t normalize_backward(std::int64_t width) const {
    return (rounded ? 3 : 2) * width / element * accumulator;
  }
  /// The product that is added to a weight's gradient exists by itself, and once more widened, when
  /// the gradient is of another type.
  [[nodiscard]] std::int64_t weight(std::int64_t rows, std::int64_t columns) const {
    return rounded ? (element + accumulator) * rows * columns : 0;
  }
  /// One tile of scores in the attention kernel; backward holds two.
  [[nodiscard]] std::int64_t tile(Tokens queries, Tokens keys) const {
    const std::int64_t rows = queries.count() >= 768 ? 256 : queries.count() >= 192 ? 64 : 32;
    return std::min(queries.count(), rows) * std::min<std::int64_t>(keys.count(), 512) *
           (accumulator + (rounded ? element : 0));
  }

  ModelShape shape;  ///< the rank's
  std::int64_t element, accumulator;
  bool rounded;  ///< sums are kept in a wider type than tensors
  std::int64_t hidden, q, k, ffn, lse;
  std::int64_t row;       ///< with nothing to compute again
  std::int64_t dropped;   ///< of a row, what is computed again
  std::int64_t gathered;  ///< a layer's input and output over all tensor-parallel ranks, less own
  std::int64_t rope;
};

/// What a slice's forward attention holds at most beyond its own output and log-sum-exp.
std::int64_t slice_forward(const Widths& w, const Slice& s) {
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own;
  // The prefix's result beside the own block's; merging adds the new log-sum-exp and two shares.
  return std::max(
      {own, tokens * (w.q + w.lse) + w.tile(s.length(), s.prefix()), tokens * (w.q + 4 * w.lse)});
}

/// One layer of a forward MicroPack: what it holds at most beyond its rows and its output. Only the
/// stage's last layer can make the peak, since the rows of the others are kept by then.
std::int64_t layer_forward_transient(const Widths& w, const MicroPack& pack) {
  const std::int64_t tokens = pack.tokens().count();
  const bool single = pack.slices.size() == 1;
  std::int64_t to_come = tokens;
  std::int64_t slices = 0;
  for (const Slice& s : pack.slices) {
    to_come -= s.length().count();
    slices = std::max(slices, slice_forward(w, s) - to_come * (w.q + w.lse));
  }
  if (!single) slices = std::max(slices, tokens * (w.q + w.lse));  // joined
  const std::int64_t kept = w.hidden + w.q + (w.shape.qk_norm ? w.q + w.k : 0) + w.q + w.lse;
  const std::int64_t qkv_and_k = w.q + 3 * w.k;
  const std::int64_t attention =
      tokens * (kept + qkv_and_k - w.row) + std::max(slices, tokens * w.hidden);
  const std::int64_t norm = tokens * (w.normalize(w.hidden) - 2 * w.ffn);
  const std::int64_t mlp = tokens * (w.ffn + w.hidden);
  return std::max({attention, norm, mlp}) + (single ? 0 : tokens * w.rope);
}

/// What a slice's backward attention holds at most.
std::int64_t slice_backward(const Widths& w, const Slice& s) {
  const std::int64_t tokens = s.length().count();
  const std::int64_t own = tokens * (w.q + 2 * w.k + w.lse);
  const std::int64_t tiles = 2 * w.tile(s.length(), s.length());
  if (s.begin == Tokens(0)) return own + tiles;
  const std::int64_t prefix = tokens * w.q + s.prefix().count() * 2 * w.k;
  const std::int64_t widened = w.rounded ? s.prefix().count() * w.k / w.element * w.accumulator : 0;
  return own + std::max({tiles, prefix + 2 * w.tile(s.length(), s.prefix()), prefix + widened});
}

/// Bytes of one layer's K and V, dK and dV that a backward MicroPack opens and closes.
struct LayerStores {
  std::int64_t opened = 0;
  std::int64_t closed = 0;

  void open(const Widths& w, const Slice& s, Tokens length) {
    if (s.end == length && s.begin > Tokens(0)) opened += gradient(w, length);
  }
  void close(const Widths& w, const Slice& s, Tokens length) {
    if (s.begin > Tokens(0)) return;
    closed += 2 * w.k * length.count() + (s.end < length ? gradient(w, length) : 0);
  }

 private:
  static std::int64_t gradient(const Widths& w, Tokens length) {
    return 2 * w.k / w.element * w.accumulator * length.count();
  }
};

std::int64_t mlp_backward(const Widths& w, std::int64_t tokens) {
  const std::int64_t down =
      tokens * w.ffn + w.weight(w.shape.hidden_size, w.shape.intermediate_size);
  const std::int64_t act = tokens * 3 * w.ffn;
  const std::int64_t normalize = tokens * (2 * w.ffn + w.normalize(w.hidden));
  const std::int64_t gate_up = tokens * (2 * w.ffn + 2 * w.hidden) +
                               w.weight(2 * w.shape.intermediate_size, w.shape.hidden_size);
  const std::int64_t norm = tokens * (2 * w.hidden + w.normalize_backward(w.hidden));
  return tokens * w.hidden + std::max({down, act, normalize, gate_up, norm});
}

/// One layer of a backward MicroPack: what it holds at most beyond the stores and the dK and dV
/// that it opens there. K and V that it closes on the way make room for what follows.
std::int64_t layer_backward_transient(const Widths& w, const MicroPack& pack,
                                      const SequenceLengths& lengths) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t dqkv = w.q + 2 * w.k;
  const std::int64_t held = tokens * 2 * w.hidden;  // dy and dmiddle
  const std::int64_t queries =
      w.shape.qk_norm ? 2 * w.q + w.k + w.lse + w.accumulator * w.shape.num_kv_heads : 0;
  const std::int64_t in_slices = held + tokens * (w.q + queries + dqkv);
  LayerStores stores;
  std::int64_t slices = 0;
  for (const Slice& s : pack.slices) {
    const Tokens length = lengths[s.sequence.index()];
    stores.open(w, s, length);
    slices = std::max(slices, stores.opened - stores.closed + slice_backward(w, s));
    stores.close(w, s, length);
  }
  const std::int64_t undo = tokens * (w.q + (w.shape.qk_norm ? w.normalize_backward(w.q) : 0));
  const std::int64_t qkv =
      tokens * (dqkv + 2 * w.hidden) +
      w.weight(w.shape.q_width() + 2 * w.shape.kv_width(), w.shape.hidden_size);
  const std::int64_t normalize = tokens * (dqkv + w.normalize(w.hidden));
  const std::int64_t norm = tokens * (2 * w.hidden + w.normalize_backward(w.hidden));
  const std::int64_t before =
      std::max(mlp_backward(w, tokens), held + w.weight(w.shape.hidden_size, w.shape.q_width()));
  const std::int64_t after = std::max(in_slices + undo, held + std::max({qkv, normalize, norm}));
  return std::max({std::int64_t{0}, before - stores.opened, in_slices + slices - stores.opened,
                   after - stores.closed}) +
         (pack.slices.size() > 1 ? tokens * w.rope : 0);
}

/// A layer's weight gradients, when they run by themselves: a normalised input is computed again
/// and gathered from all tensor-parallel ranks, like the gradient of an output in its turn; then
/// the product.
std::int64_t weight_gradient_transient(const Widths& w, std::int64_t tokens) {
  const ModelShape& s = w.shape;
  const std::int64_t gathered = w.hidden + w.gathered / 2;
  // Those of the down and output projections are no larger.
  const std::int64_t product = std::max(w.weight(2 * s.intermediate_size, s.hidden_size),
                                        w.weight(s.q_width() + 2 * s.kv_width(), s.hidden_size));
  return std::max(tokens * w.normalize(w.hidden), tokens * gathered + product);
}

/// Final norm, head and loss, which run before any layer: dx, targets, and one block of rows.
std::int64_t head_transient(const Widths& w, std::int64_t tokens) {
  constexpr std::int64_t kTarget = sizeof(std::int64_t);
  const std::int64_t rows = std::min(tokens, head_block(w.shape).count());
  const std::int64_t logits = rows * w.accumulator * w.shape.vocab_size;
  const std::int64_t rounded = w.rounded ? rows * w.element * w.shape.vocab_size : 0;
  // Clamped targets; 1 / rms, validity, largest logit and log-sum-exp; n and n ⊙ weight.
  const std::int64_t held = rows * (kTarget + 4 * w.accumulator + 2 * w.hidden);
  const std::int64_t softmax = 2 * logits;  // log-sum-exp works on a copy
  const std::int64_t gradient =
      logits + rounded + w.weight(w.shape.vocab_size, w.shape.hidden_size);
  const std::int64_t norm = logits + rounded + rows * (w.hidden + w.normalize_backward(w.hidden));
  return tokens * (w.hidden + kTarget) + held + std::max({softmax, gradient, norm});
}

std::vector<Bytes> per_sequence(const SequenceLengths& lengths, std::int64_t bytes_per_token) {
  std::vector<Bytes> result;
  result.reserve(lengths.size());
  for (const Tokens length : lengths) result.emplace_back(length.count() * bytes_per_token);
  return result;
}

/// A replica's share of a merged pack, as a pack of shorter sequences.
MicroPack share_of(const MicroPack& pack, const SequenceLengths& lengths) {
  MicroPack out;
  for (const Slice& s : pack.slices) {
    const std::int64_t end = s.end.count();
    const bool last = s.end == lengths[s.sequence.index()];
    out.slices.push_back({s.sequence, s.begin / pack.replicas,
                          Tokens(last ? share(end, pack.replicas) : end / pack.replicas)});
  }
  return out;
}

/// What a replica holds of its packs.
struct HeldPacks {
  PackPlan packs;
  SequenceLengths lengths;
};

HeldPacks held_packs(const PackPlan& packs, const SequenceLengths& lengths) {
  HeldPacks held{packs, lengths};
  for (auto* pass : {&held.packs.forward, &held.packs.backward})
    for (MicroPack& pack : *pass)
      if (pack.replicas > 1) pack = share_of(pack, lengths);
  for (const MicroPack& pack : packs.forward)
    if (pack.replicas > 1)
      for (const Slice& s : pack.slices)
        held.lengths[s.sequence.index()] =
            Tokens(share(lengths[s.sequence.index()].count(), pack.replicas));
  return held;
}

/// Queries of all replicas and their outputs over this replica's keys, in the accumulate type, with
/// their log-sum-exp; in backward also the outputs' gradients and row sums.
std::int64_t exchanged(const Widths& w, const MicroPack& pack, bool backward) {
  if (pack.replicas == 1) return 0;
  const std::int64_t partial = w.q / w.element * w.accumulator;
  const std::int64_t token = backward ? 2 * w.q + partial + 2 * w.lse : w.q + partial + w.lse;
  return pack.tokens().count() * token;
}

/// By pack, the same on every stage.
struct PackTransients {
  std::vector<std::int64_t> forward, backward, head;
  std::vector<Bytes> weights;       ///< by backward pack, of its weight gradients
  std::vector<std::int64_t> ended;  ///< by backward pack: rows of the forward packs that it frees
};

PackTransients pack_transients(const Widths& w, const PackPlan& packs, const HeldPacks& held) {
  const SequenceLengths& lengths = held.lengths;
  PackTransients out;
  for (std::size_t p = 0; p < packs.forward.size(); ++p) {
    const MicroPack& pack = held.packs.forward[p];
    out.forward.push_back(layer_forward_transient(w, pack) + exchanged(w, packs.forward[p], false) +
                          pack.tokens().count() * (w.dropped + w.gathered));
  }
  const auto segments = regroup(held.packs);
  std::vector<std::size_t> last_use(packs.forward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    const MicroPack& pack = held.packs.backward[p];
    const std::int64_t tokens = pack.tokens().count();
    const bool copied = segments[p].size() > 1;
    LayerStores stores;
    for (const Slice& s : pack.slices) stores.open(w, s, lengths[s.sequence.index()]);
    out.backward.push_back(layer_backward_transient(w, pack, lengths) +
                           exchanged(w, packs.backward[p], true) +
                           tokens * ((copied ? w.kept() : 0) + w.dropped + w.gathered));
    out.weights.emplace_back(weight_gradient_transient(w, tokens));
    out.head.push_back(head_transient(w, tokens) + (copied ? tokens * w.hidden : 0) -
                       stores.opened);
    for (const RowSegment& segment : segments[p]) last_use[segment.forward.index()] = p;
  }
  out.ended.resize(packs.backward.size());
  for (std::size_t f = 0; f < last_use.size(); ++f)
    out.ended[last_use[f]] += held.packs.forward[f].tokens().count();
  return out;
}

std::vector<Bytes> per_pack(const std::vector<MicroPack>& packs, std::int64_t bytes_per_token) {
  std::vector<Bytes> result;
  result.reserve(packs.size());
  for (const MicroPack& pack : packs) result.emplace_back(pack.tokens().count() * bytes_per_token);
  return result;
}

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

/// Rows of cost.row_bytes a token and layer, and nothing else but what a split backward holds,
/// which grows with them as in the memory model.
TaskBytes bytes_of_rows(const CostModel& cost, const StageLayout& layout, const HeldPacks& held) {
  const Widths w(cost.shape, cost.dtype, cost.tp);
  TaskBytes bytes;
  const std::vector<Bytes> no_sequence(held.lengths.size());
  const std::vector<Bytes> no_forward(held.packs.forward.size());
  const std::vector<Bytes> no_backward(held.packs.backward.size());
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const std::int32_t layers = layout.layers(StageId(s));
    const double row = layers * cost.row_bytes;
    bytes.layers.push_back(layers);
    bytes.rows.push_back(per_pack(held.packs.forward, whole_bytes(row)));
    bytes.kv.push_back(no_sequence);
    bytes.dkv.push_back(no_sequence);
    bytes.forward_transient.push_back(no_forward);
    bytes.backward_transient.push_back(no_backward);
    if (cost.weight_gradient == EdgeTime()) continue;
    const double operands =
        row * static_cast<double>(w.weight_operands()) / static_cast<double>(w.row);
    bytes.weight_operands.push_back(per_pack(held.packs.backward, whole_bytes(operands)));
    bytes.weight_transient.push_back(no_backward);
  }
  bytes.forward_input = no_forward;
  bytes.backward_input = no_backward;
  return bytes;
}

}  // namespace

Bytes row_bytes(const ModelShape& shape, Dtype dtype) {
  return Bytes(Widths(shape, dtype).row);
}

Bytes kv_bytes(const ModelShape& shape, Dtype dtype) {
  return Bytes(2 * element_bytes(dtype) * shape.kv_width());
}

Bytes dkv_bytes(const ModelShape& shape, Dtype dtype) {
  return Bytes(2 * accumulator_bytes(dtype) * shape.kv_width());
}

Tokens head_block(const ModelShape& shape) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 20;  // per block: 4 MiB in fp32
  return Tokens(std::clamp<std::int64_t>(kLogits / shape.vocab_size, 64, 4096));
}

TaskBytes task_bytes(const CostModel& cost, const StageLayout& layout, const PackPlan& packs,
                     const SequenceLengths& lengths) {
  const HeldPacks held = held_packs(packs, lengths);
  if (cost.row_bytes > 0) return bytes_of_rows(cost, layout, held);
  const Widths w(cost.shape, cost.dtype, cost.tp, cost.recompute);
  const PackTransients transients = pack_transients(w, packs, held);
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const bool last = s == layout.stages() - 1;
    const std::int64_t layers = layout.layers(StageId(s));
    bytes.layers.push_back(static_cast<std::int32_t>(layers));
    bytes.kv.push_back(per_sequence(held.lengths, layers * 2 * w.k));
    bytes.dkv.push_back(per_sequence(held.lengths, layers * 2 * w.k / w.element * w.accumulator));
    auto& rows = bytes.rows.emplace_back();
    auto& forward = bytes.forward_transient.emplace_back();
    for (std::size_t p = 0; p < packs.forward.size(); ++p) {
      // The last stage's output is the head's input, which is kept with the rows.
      const std::int64_t tokens = held.packs.forward[p].tokens().count();
      const std::int64_t head = last ? tokens * w.hidden : 0;
      rows.emplace_back(tokens * layers * w.kept() + head);
      forward.emplace_back(transients.forward[p] - head);
    }
    auto& backward = bytes.backward_transient.emplace_back();
    for (std::size_t p = 0; p < packs.backward.size(); ++p) {
      // The head frees its input before the first layer; the ledger counts that by layers.
      const std::int64_t freed = transients.ended[p] * w.hidden / layers;
      backward.emplace_back(last ? std::max(transients.backward[p] - freed, transients.head[p])
                                 : transients.backward[p]);
    }
    if (cost.weight_gradient == EdgeTime()) continue;
    bytes.weight_operands.push_back(per_pack(held.packs.backward, layers * w.weight_operands()));
    bytes.weight_transient.push_back(transients.weights);
  }
  bytes.forward_input = per_pack(held.packs.forward, w.hidden);
  bytes.backward_input = per_pack(held.packs.backward, w.hidden);
  return bytes;
}

ModelState model_state(const CostModel& cost, const StageLayout& layout, StageId stage,
                       std::int32_t replicas) {
  const std::int64_t held = share(stage_parameters(cost.shape, layout, stage), cost.tp);
  const std::int64_t element = element_bytes(cost.dtype);
  const std::int64_t accumulator = accumulator_bytes(cost.dtype);
  const std::int64_t optimizer = 2 * accumulator + (element == accumulator ? 0 : accumulator);
  return {Bytes(held * element), Bytes(held * accumulator),
          Bytes(share(held, replicas) * optimizer)};
}

Bytes model_state_bytes(const CostModel& cost, const StageLayout& layout, StageId stage,
                        std::int32_t replicas) {
  return model_state(cost, layout, stage, replicas).total();
}

}  // namespace slimpack
