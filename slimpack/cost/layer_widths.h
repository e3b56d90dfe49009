// Byte widths of one token's tensors in one layer, named like the runtime's tensors
// (docs/row-store.md): what the memory model is made of.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/spec/decoder_shape.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// One of `parts` shares of a whole, rounded up.
[[nodiscard]] std::int64_t share_of(std::int64_t whole, std::int64_t parts);

/// Tokens whose operands are widened at a time for a product with wider sums: enough for the full
/// speed of matrix products, and few enough to weigh nothing beside a layer's rows.
inline constexpr Tokens kWidenedRows{256};

/// On one of `tp` tensor-parallel ranks: its heads and its share of the MLP; hidden states are
/// split by tokens.
struct LayerWidths {
  LayerWidths(const ModelShape& s, Dtype d, std::int32_t tp = 1);
  /// Of a layer of this kind. What PackFlow's own layer does not have counts as if it had: see
  /// docs/models.md.
  LayerWidths(const DecoderShape& s, std::size_t kind, Dtype d, std::int32_t tp);

  /// Of a row, what forward keeps for backward on the device.
  [[nodiscard]] std::int64_t kept(Recompute recompute) const;
  /// Of that, what backward copies where it lies in several forward MicroPacks: all but gate and
  /// up.
  [[nodiscard]] std::int64_t joined(Recompute recompute) const;
  /// Of what backward needs, what forward has and does not keep.
  [[nodiscard]] std::int64_t dropped(Recompute recompute) const;
  /// Rows that backward computes again, or fetches from host memory.
  [[nodiscard]] std::int64_t computed_again(Recompute recompute) const;
  /// What a layer's weight gradients need once its input gradients are done, by weight: what its
  /// input is computed from, and the gradient of its output.
  [[nodiscard]] std::int64_t weight_operands() const;

  /// dK and dV, in the accumulate type.
  [[nodiscard]] std::int64_t gradients() const { return 2 * k / element * accumulator; }

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
  /// What is multiplied for the gradient of a weight from so many tokens exists once more widened,
  /// a block of them at a time, when the gradient is of another type.
  [[nodiscard]] std::int64_t weight(std::int64_t tokens, std::int64_t rows,
                                    std::int64_t columns) const {
    return rounded ? std::min(tokens, kWidenedRows.count()) * (rows + columns) * accumulator : 0;
  }
  /// Likewise of a token's two attention outputs that are merged.
  [[nodiscard]] std::int64_t merging() const { return rounded ? 2 * q / element * accumulator : 0; }
  /// Hidden states as products take them: gathered, or the own ones.
  [[nodiscard]] std::int64_t all_hidden() const { return gathered > 0 ? gathered : hidden; }
  /// A product whose parts the ranks sum: theirs over all rows, own sums and an addend.
  [[nodiscard]] std::int64_t summed() const {
    return gathered > 0 ? gathered + 2 * hidden : hidden;
  }
  /// One tile of scores in the attention kernel; backward holds two.
  [[nodiscard]] std::int64_t tile(Tokens queries, Tokens keys) const;
  /// Query heads that lie below each other when so many queries attend to a prefix: those that
  /// share a key head, unless the queries are many (packflow/attention_kernel.cpp).
  [[nodiscard]] std::int64_t folded_heads(Tokens queries) const;

  ModelShape shape;  ///< the rank's
  std::int64_t element, accumulator;
  bool rounded;  ///< sums are kept in a wider type than tensors
  std::int64_t hidden, q, k, ffn, lse;
  std::int64_t rstd;      ///< 1 / rms of a hidden state
  std::int64_t qk_norm;   ///< normalised q and k with 1 / rms of each head; 0 without q/k norms
  std::int64_t row;       ///< x, q, k where it is normalised, out, lse, middle, gate and up
  std::int64_t gathered;  ///< hidden states over all tensor-parallel ranks; 0 on one that is alone
  std::int64_t index;     ///< which rank has which row; likewise
  std::int64_t rope;
  std::int64_t attention_extra =
      0;                       ///< of a row: latents, and the input of attention's output norm
  std::int64_t mlp_extra = 0;  ///< of a row: the router's, and the input of the MLP's output norm
  std::int64_t copies = 0;     ///< hidden states of the tokens that the rank's experts get
};

}  // namespace slimpack
