#include "slimpack/cost/memory_model.h"

#include <algorithm>

#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

/// Byte widths of one token's tensors, named like the runtime's tensors (docs/row-store.md).
struct Widths {
  Widths(const ModelShape& s, Dtype d)
      : shape(s),
        element(element_bytes(d)),
        accumulator(accumulator_bytes(d)),
        rounded(element != accumulator),
        hidden(element * s.hidden_size),
        q(element * s.q_width()),
        k(element * s.kv_width()),
        ffn(element * s.intermediate_size),
        lse(accumulator * s.num_heads),
        row(2 * hidden + 2 * q + (s.qk_norm ? k : 0) + lse + 2 * ffn),
        rope(element * s.head_dim) {}

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

  const ModelShape& shape;
  std::int64_t element, accumulator;
  bool rounded;  ///< sums are kept in a wider type than tensors
  std::int64_t hidden, q, k, ffn, lse, row, rope;
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
  for (const Tokens length : lengths) result.emplace_back(length.count() * bytes_per_token);
  return result;
}

/// By pack, the same on every stage.
struct PackTransients {
  std::vector<std::int64_t> forward, backward, head;
  std::vector<std::int64_t> ended;  ///< by backward pack: rows of the forward packs that it frees
};

PackTransients pack_transients(const Widths& w, const PackPlan& packs,
                               const SequenceLengths& lengths) {
  PackTransients out;
  for (const MicroPack& pack : packs.forward)
    out.forward.push_back(layer_forward_transient(w, pack));
  const auto segments = regroup(packs);
  std::vector<std::size_t> last_use(packs.forward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    const MicroPack& pack = packs.backward[p];
    const std::int64_t tokens = pack.tokens().count();
    const bool copied = segments[p].size() > 1;
    LayerStores stores;
    for (const Slice& s : pack.slices) stores.open(w, s, lengths[s.sequence.index()]);
    out.backward.push_back(layer_backward_transient(w, pack, lengths) +
                           (copied ? tokens * w.row : 0));
    out.head.push_back(head_transient(w, tokens) + (copied ? tokens * w.hidden : 0) -
                       stores.opened);
    for (const RowSegment& segment : segments[p]) last_use[segment.forward.index()] = p;
  }
  out.ended.resize(packs.backward.size());
  for (std::size_t f = 0; f < last_use.size(); ++f)
    out.ended[last_use[f]] += packs.forward[f].tokens().count();
  return out;
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

TaskBytes task_bytes(const ModelShape& shape, Dtype dtype, const StageLayout& layout,
                     const PackPlan& packs, const SequenceLengths& lengths) {
  const Widths w(shape, dtype);
  const PackTransients transients = pack_transients(w, packs, lengths);
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const bool last = s == layout.stages() - 1;
    const std::int64_t layers = layout.layers(StageId(s));
    bytes.layers.push_back(static_cast<std::int32_t>(layers));
    bytes.kv.push_back(per_sequence(lengths, layers * kv_bytes(shape, dtype).count()));
    bytes.dkv.push_back(per_sequence(lengths, layers * dkv_bytes(shape, dtype).count()));
    auto& rows = bytes.rows.emplace_back();
    auto& forward = bytes.forward_transient.emplace_back();
    for (std::size_t p = 0; p < packs.forward.size(); ++p) {
      // The last stage's output is the head's input, which is kept with the rows.
      const std::int64_t tokens = packs.forward[p].tokens().count();
      const std::int64_t head = last ? tokens * w.hidden : 0;
      rows.emplace_back(tokens * layers * w.row + head);
      forward.emplace_back(transients.forward[p] - head);
    }
    auto& backward = bytes.backward_transient.emplace_back();
    for (std::size_t p = 0; p < packs.backward.size(); ++p) {
      // The head frees its input before the first layer; the ledger counts that by layers.
      const std::int64_t freed = transients.ended[p] * w.hidden / layers;
      backward.emplace_back(last ? std::max(transients.backward[p] - freed, transients.head[p])
                                 : transients.backward[p]);
    }
  }
  for (const MicroPack& pack : packs.forward)
    bytes.forward_input.emplace_back(pack.tokens().count() * w.hidden);
  for (const MicroPack& pack : packs.backward)
    bytes.backward_input.emplace_back(pack.tokens().count() * w.hidden);
  return bytes;
}

}  // namespace slimpack
