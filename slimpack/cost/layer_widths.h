// Bytes of one token's tensors in one layer, named like the runtime's tensors (docs/row-store.md).
// The memory model is built from them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/context_travel.h"
#include "slimpack/cost/gpu_memory.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// One of `parts` shares of a whole, rounded up.
[[nodiscard]] std::int64_t share_of(std::int64_t whole, std::int64_t parts);

/// For products with wider sums, operands are widened in blocks of this many tokens: enough for the
/// full speed of matrix products, and few enough to be negligible beside a layer's rows.
inline constexpr Tokens kWidenedRows{256};

/// Whether fused kernels take the layers of this shape in bf16: those of packflow/fused/fused.h, by
/// their widths.
[[nodiscard]] bool fused_kernels_take(const LayerShape& layer);
/// Whether they take logits of so many words: a multiple of 8.
[[nodiscard]] bool fused_head_takes(std::int64_t vocab_size);

/// Bytes per token on one of `tp` tensor-parallel ranks, which has its heads and its share of the
/// MLP. Hidden states are split by tokens.
struct LayerWidths {
  /// A layer of PackFlow's.
  LayerWidths(const LayerShape& layer, Dtype d, std::int32_t tp = 1);
  /// A layer of this kind. What PackFlow's layer does not have counts as if it had: see
  /// docs/models.md.
  LayerWidths(const Decoder& decoder, std::size_t kind, Dtype d, std::int32_t tp);

  /// Counts what kernels for GPUs take, of tensors in bf16; those of wider numbers are libtorch's.
  void run_on(const GpuMemory& gpu);

  /// Whether backward with kElementwise computes anything that it does not with kNothing. Fused
  /// kernels give norms and silu(gate) ⊙ up while they compute gradients; after its norm q is
  /// turned once more.
  [[nodiscard]] bool elementwise_again() const { return !fused || shape.has_qk_norm(); }

  /// Bytes that forward keeps on the device for backward.
  [[nodiscard]] std::int64_t kept(Recompute recompute) const;
  /// The part of kept() that backward copies if it lies in several forward MicroPacks: all but gate
  /// and up.
  [[nodiscard]] std::int64_t joined(Recompute recompute) const;
  /// Bytes that forward drops at the end of the layer, without silu(gate) ⊙ up. Backward computes
  /// them again or fetches them from host memory.
  [[nodiscard]] std::int64_t dropped(Recompute recompute) const;
  /// Bytes that a layer's weight gradients need after its input gradients: for each weight, the
  /// tensors that its input is computed from and the gradient of its output.
  [[nodiscard]] std::int64_t weight_operands() const;

  /// dK and dV, in the accumulate type.
  [[nodiscard]] std::int64_t gradients() const { return 2 * k / element * accumulator; }
  /// Bytes that travel around a zone.
  [[nodiscard]] TravelWidths travel() const { return {q, k, lse, gradients(), comm}; }

  /// The peak of rms_normalize beyond its input: the result; or, if it is rounded, input and result
  /// in the accumulate type, but for libtorch's kernel for GPUs.
  [[nodiscard]] std::int64_t normalize(std::int64_t width) const {
    return rounded && !flash() ? 2 * width / element * accumulator : width;
  }
  /// The peak of rms_norm_backward beyond dy and n: dy ⊙ n and dx, and one operand in the
  /// accumulate type if dx is rounded. libtorch's kernel for GPUs takes dy ⊙ n in that type and
  /// gives dx.
  [[nodiscard]] std::int64_t normalize_backward(std::int64_t width) const {
    if (flash()) return width / element * accumulator + width;
    return (rounded ? 3 : 2) * width / element * accumulator;
  }
  /// Widened copies of both operands for the gradient of a rows × columns weight over `tokens`
  /// tokens, a block of kWidenedRows at a time. 0 if the gradient has the operands' type, and on a
  /// GPU, whose products widen what they read.
  [[nodiscard]] std::int64_t weight(std::int64_t tokens, std::int64_t rows,
                                    std::int64_t columns) const {
    return rounded && !flash()
               ? std::min(tokens, kWidenedRows.count()) * (rows + columns) * accumulator
               : 0;
  }
  /// The sums of a fused norm's backward, which its blocks have of at least 8 rows each. Few fill a
  /// GPU.
  [[nodiscard]] std::int64_t norm_sums(std::int64_t tokens) const {
    const std::int64_t blocks = std::min<std::int64_t>(16 * multiprocessors, share_of(tokens, 8));
    return blocks * shape.hidden_size * accumulator;
  }
  /// Widened copies of the two attention outputs that are merged.
  [[nodiscard]] std::int64_t merging() const { return rounded ? 2 * q / element * accumulator : 0; }
  /// Hidden states as products take them: gathered, or this rank's own if it is alone.
  [[nodiscard]] std::int64_t all_hidden() const { return gathered > 0 ? gathered : hidden; }
  /// A product that the ranks sum: the rank's part over all rows, its own sums, and an addend.
  [[nodiscard]] std::int64_t summed() const {
    return gathered > 0 ? gathered + 2 * hidden : hidden;
  }
  /// Bytes of one tile of scores in the attention kernel. Backward holds two.
  [[nodiscard]] std::int64_t tile(Tokens queries, Tokens keys) const;
  /// The number of query heads that the attention kernel folds into one when `queries` queries
  /// attend to a prefix. Heads that share a key head are folded, unless there are many queries.
  [[nodiscard]] std::int64_t folded_heads(Tokens queries) const;

  /// Whether attention runs in FlashAttention (flash_transients.h).
  [[nodiscard]] bool flash() const { return multiprocessors > 0; }

  LayerShape shape;             ///< the rank's
  std::int64_t vocab_size = 0;  ///< words whose logits the rank computes
  std::int64_t element, accumulator;
  bool rounded;  ///< sums are kept in a wider type than tensors
  std::int64_t hidden, q, k, ffn, lse;
  std::int64_t rstd;      ///< 1 / rms of a hidden state
  std::int64_t qk_norm;   ///< normalised q and k with 1 / rms of each head; 0 without q/k norms
  std::int64_t row;       ///< x, q, k (only with q/k norms), out, lse, middle, gate and up
  std::int64_t gathered;  ///< a hidden state of all tensor-parallel ranks; 0 if tp is 1
  std::int64_t index;     ///< the number of the rank's row; 0 if tp is 1
  std::int64_t rope;
  std::int64_t attention_extra =
      0;                       ///< of a row: latents, and the input of attention's output norm
  std::int64_t mlp_extra = 0;  ///< of a row: the router's, and the input of the MLP's output norm
  std::int64_t copies = 0;     ///< hidden states of the tokens that the rank's experts get
  /// The GPU has so many; 0 where there is none, or none whose FlashAttention takes such heads.
  std::int32_t multiprocessors = 0;
  std::int32_t flash_release = kFirstFlashRelease;  ///< of FlashAttention
  CpCommType comm = CpCommType::kDirect;            ///< between replicas that share sequences
  bool kernel_bytes = true;  ///< whether what the attention kernel takes for itself counts
  bool fused = false;        ///< whether fused kernels run (packflow/fused/fused.h)
  bool fused_head = false;   ///< whether the loss runs in them, which take the logits as they are
};

}  // namespace slimpack
