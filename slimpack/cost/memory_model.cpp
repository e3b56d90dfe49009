#include "slimpack/cost/memory_model.h"

#include <algorithm>

#include "slimpack/plan/regroup.h"

namespace slimpack {
namespace {

/// Byte widths of one token's tensors, named like the runtime's tensors (docs/row-store.md).
struct Widths {
  Widths(const ModelShape& s, Dtype d)
      : element(element_bytes(d)),
        hidden(element * s.hidden_size),
        q(element * s.q_width()),
        k(element * s.kv_width()),
        ffn(element * s.intermediate_size),
        lse(accumulator_bytes(d) * s.num_heads),
        vocab(accumulator_bytes(d) * s.vocab_size),
        rope(element * s.head_dim),
        wide(accumulator_bytes(d) / element) {}

  std::int64_t element, hidden, q, k, ffn, lse, vocab, rope;
  std::int64_t wide;  ///< norms and their gradients are held this many times wider than `hidden`
};

/// One forward MicroPack on a stage: the largest excess over what the row store keeps. Rows of all
/// layers are counted as kept, so only the last layer's temporaries can make the peak.
std::int64_t forward_transient(const Widths& w, std::int64_t tokens, bool single, bool last_stage) {
  const std::int64_t merge = w.q + 4 * w.lse;  // the prefix's output, or the slices' before joining
  const std::int64_t attention = w.q + 3 * w.k + merge - w.hidden - 2 * w.ffn;
  const std::int64_t mlp = w.ffn + (last_stage ? 0 : w.hidden);
  const std::int64_t norm = w.wide * w.hidden;
  return tokens * (std::max({attention, mlp, norm}) + (single ? 0 : w.rope));
}

/// Temporaries of the attention kernel's backward for the slice that needs most.
std::int64_t slice_transient(const Widths& w, const MicroPack& pack) {
  std::int64_t largest = 0;
  for (const Slice& s : pack.slices) {
    const std::int64_t own = s.length().count() * (2 * (w.q + w.k) + w.lse);
    const std::int64_t prefix = s.begin.count() == 0 ? 0 : s.begin.count() * 2 * w.k;
    largest = std::max(largest, own + prefix);
  }
  return largest;
}

std::int64_t layer_backward_transient(const Widths& w, const MicroPack& pack, std::int64_t copied) {
  const std::int64_t tokens = pack.tokens().count();
  const std::int64_t norm = 2 * w.hidden + 2 * w.wide * w.hidden;  // n, dn, and dy·n and dx wide
  const std::int64_t mlp = std::max({3 * w.ffn, 2 * w.ffn + 2 * w.hidden, norm}) + w.hidden;
  const std::int64_t held = 2 * w.hidden + w.q + 2 * w.k;  // dy, dmiddle, dqkv
  const std::int64_t attention = held + w.q;
  const std::int64_t projection = held + norm;
  return tokens * copied + std::max({tokens * mlp, tokens * attention + slice_transient(w, pack),
                                     tokens * projection});
}

std::int64_t head_transient(const Widths& w, std::int64_t tokens, std::int64_t block, bool copied) {
  const std::int64_t rows = std::min(tokens, block);
  const std::int64_t norm = 2 * w.hidden + 2 * w.wide * w.hidden;
  return tokens * w.hidden * (copied ? 2 : 1) + rows * (norm + 2 * w.vocab);
}

std::vector<Bytes> per_sequence(const SequenceLengths& lengths, std::int64_t bytes_per_token) {
  std::vector<Bytes> result;
  for (const Tokens length : lengths) result.emplace_back(length.count() * bytes_per_token);
  return result;
}

}  // namespace

Bytes row_bytes(const ModelShape& shape, Dtype dtype) {
  const Widths w(shape, dtype);
  const std::int64_t raw_k = shape.qk_norm ? w.k : 0;
  return Bytes(2 * w.hidden + 2 * w.q + raw_k + w.lse + 2 * w.ffn);
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
  const auto segments = regroup(packs);
  TaskBytes bytes;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const bool last = s == layout.stages() - 1;
    const std::int64_t layers = layout.layers(StageId(s));
    bytes.layers.push_back(static_cast<std::int32_t>(layers));
    bytes.kv.push_back(per_sequence(lengths, layers * kv_bytes(shape, dtype).count()));
    bytes.dkv.push_back(per_sequence(lengths, layers * dkv_bytes(shape, dtype).count()));
    auto& rows = bytes.rows.emplace_back();
    auto& forward = bytes.forward_transient.emplace_back();
    for (const MicroPack& pack : packs.forward) {
      const std::int64_t tokens = pack.tokens().count();
      rows.emplace_back(tokens *
                        (layers * row_bytes(shape, dtype).count() + (last ? w.hidden : 0)));
      forward.emplace_back(forward_transient(w, tokens, pack.slices.size() == 1, last));
    }
    auto& backward = bytes.backward_transient.emplace_back();
    for (std::size_t p = 0; p < packs.backward.size(); ++p) {
      const bool copied = segments[p].size() > 1;
      const std::int64_t rope = packs.backward[p].slices.size() > 1 ? w.rope : 0;
      const std::int64_t tokens = packs.backward[p].tokens().count();
      const std::int64_t layer = layer_backward_transient(
          w, packs.backward[p], rope + (copied ? row_bytes(shape, dtype).count() : 0));
      backward.emplace_back(
          std::max(layer, last ? head_transient(w, tokens, head_block(shape).count(), copied) : 0));
    }
  }
  for (const MicroPack& pack : packs.forward)
    bytes.forward_input.emplace_back(pack.tokens().count() * w.hidden);
  for (const MicroPack& pack : packs.backward)
    bytes.backward_input.emplace_back(pack.tokens().count() * w.hidden);
  return bytes;
}

}  // namespace slimpack
