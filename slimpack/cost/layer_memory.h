// The memory of one layer on one rank: the bytes of a token's tensors, named like the runtime's,
// and the peaks of an action beyond the stores (layer_memory.cpp lists their terms). `pack` has the
// slices as the rank's replica holds them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/attention_rules.h"
#include "slimpack/cost/gpu_memory.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

struct ExchangeSide;

/// One of `parts` shares of a whole, rounded up.
[[nodiscard]] std::int64_t share_of(std::int64_t whole, std::int64_t parts);

/// For products with wider sums, operands are widened in blocks of this many tokens: enough for the
/// full speed of matrix products, and few enough to be negligible beside a layer's rows.
inline constexpr Tokens kWidenedRows{256};

/// Whether fused kernels take the layers of this shape in bf16: those of packflow/fused/fused.h, by
/// their widths.
[[nodiscard]] bool fused_kernels_take(const LayerShape& layer);
/// Whether FlashAttention takes heads of this dimension.
[[nodiscard]] bool flash_takes(std::int64_t head_dim);

/// The kernels and exchanges that run a layer, as far as its memory depends on them.
struct LayerRuntime {
  /// The GPU has so many; 0 where there is none, or none whose FlashAttention takes such heads.
  std::int32_t multiprocessors = 0;
  std::int32_t flash_release = kFirstFlashRelease;  ///< of FlashAttention
  CpCommType comm = CpCommType::kDirect;            ///< between replicas that share sequences
  bool kernel_bytes = true;    ///< whether what the attention kernel takes for itself counts
  bool fused_kernels = false;  ///< whether there are fused kernels (packflow/fused/fused.h)
  bool fused = false;          ///< whether they take the layer
};

/// Bytes of a token's tensors that PackFlow's own layers do not have.
struct ExtraWidths {
  std::int64_t attention = 0;  ///< of a row: latents, and the input of attention's output norm
  std::int64_t mlp = 0;        ///< of a row: the input of the MLP's output norm
};

/// Bytes of a token in a layer with experts: of pairs of the token and each of its experts.
struct ExpertWidths {
  std::int64_t router = 0;  ///< of a row: the probabilities of all experts
  std::int64_t choice = 0;  ///< of a row: the numbers of the token's experts
  std::int64_t copies = 0;  ///< hidden states of the pairs that the rank's experts get
  /// Numbers by pair: its row, and where it is.
  [[nodiscard]] std::int64_t places() const { return 2 * choice; }
};

/// Bytes per token on one of `tp` tensor-parallel ranks, which has its heads and its share of the
/// MLP. Hidden states are split by tokens.
struct LayerWidths {
  /// A layer of PackFlow's.
  LayerWidths(const LayerShape& layer, Dtype d, std::int32_t ranks = 1);
  /// A layer of this kind. What PackFlow's layer does not have counts as if it had: see
  /// docs/models.md.
  LayerWidths(const Decoder& decoder, std::size_t kind, Dtype d, std::int32_t ranks);

  /// Counts what kernels for GPUs take, of tensors in bf16; those of wider numbers are libtorch's.
  void run_on(const GpuMemory& gpu);

  /// Whether backward with kElementwise computes anything that it does not with kNothing. Fused
  /// kernels give norms and silu(gate) ⊙ up while they compute gradients; after its norm q is
  /// turned once more.
  [[nodiscard]] bool elementwise_again() const { return !runtime.fused || shape.has_qk_norm(); }

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
  [[nodiscard]] TravelWidths travel() const { return {q, k, lse, gradients(), runtime.comm}; }

  /// The peak of rms_normalize beyond its input: the result; or, if it is rounded, input and result
  /// in the accumulate type, but for libtorch's kernel for GPUs.
  [[nodiscard]] std::int64_t normalize(std::int64_t width) const {
    return rounded() && !flash() ? 2 * width / element * accumulator : width;
  }
  /// The peak of rms_norm_backward beyond dy and n: dy ⊙ n and dx, and one operand in the
  /// accumulate type if dx is rounded. libtorch's kernel for GPUs takes dy ⊙ n in that type and
  /// gives dx.
  [[nodiscard]] std::int64_t normalize_backward(std::int64_t width) const {
    if (flash()) return width / element * accumulator + width;
    return (rounded() ? 3 : 2) * width / element * accumulator;
  }
  /// Widened copies of both operands for the gradient of a rows × columns weight over `tokens`
  /// tokens, a block of kWidenedRows at a time. 0 if the gradient has the operands' type, and on a
  /// GPU, whose products widen what they read.
  [[nodiscard]] std::int64_t weight(std::int64_t tokens, std::int64_t rows,
                                    std::int64_t columns) const {
    return rounded() && !flash()
               ? std::min(tokens, kWidenedRows.count()) * (rows + columns) * accumulator
               : 0;
  }
  /// The sums of a fused norm's backward, which its blocks have of at least 8 rows each. Few fill a
  /// GPU.
  [[nodiscard]] std::int64_t norm_sums(std::int64_t tokens) const {
    const std::int64_t blocks =
        std::min<std::int64_t>(16 * runtime.multiprocessors, share_of(tokens, 8));
    return blocks * shape.hidden_size * accumulator;
  }
  /// Widened copies of the two attention outputs that are merged.
  [[nodiscard]] std::int64_t merging() const {
    return rounded() ? 2 * q / element * accumulator : 0;
  }
  /// Hidden states as products take them: gathered, or this rank's own if it is alone.
  [[nodiscard]] std::int64_t all_hidden() const { return gathered > 0 ? gathered : hidden; }
  /// A product that the ranks sum: the rank's part over all rows, its own sums, and an addend.
  [[nodiscard]] std::int64_t summed() const {
    return gathered > 0 ? gathered + 2 * hidden : hidden;
  }
  /// The peak of a norm's backward: while the gradient of its output is summed over the ranks, or
  /// then, while it lies beside the norm's own tensors.
  [[nodiscard]] std::int64_t norm_backward() const {
    return std::max(summed(), hidden + normalize_backward(hidden));
  }
  /// Bytes of one tile of scores in the attention kernel. Backward holds two.
  [[nodiscard]] std::int64_t tile(Tokens queries, Tokens keys) const;
  /// The number of query heads that the attention kernel folds into one when `queries` queries
  /// attend to a prefix. Heads that share a key head are folded, unless there are many queries.
  [[nodiscard]] std::int64_t folded_heads(Tokens queries) const;

  /// Whether attention runs in FlashAttention (flash_forward_call).
  [[nodiscard]] bool flash() const { return runtime.multiprocessors > 0; }

  /// Whether sums are kept in a wider type than tensors.
  [[nodiscard]] bool rounded() const { return element != accumulator; }
  /// 1 / rms of a hidden state; 0 where fused kernels compute it again.
  [[nodiscard]] std::int64_t rstd() const { return runtime.fused ? 0 : share_of(accumulator, tp); }
  /// Normalised q and k with 1 / rms of each head, unless it is computed again; 0 without q/k
  /// norms.
  [[nodiscard]] std::int64_t qk_norm() const {
    if (!shape.has_qk_norm()) return 0;
    const std::int64_t norms =
        shape.qk_norm == QkNorm::kWhole ? 2 : shape.num_heads + shape.num_kv_heads;
    return q + k + (runtime.fused ? 0 : accumulator * norms);
  }
  /// x, q, k (only with q/k norms), out, lse, middle, gate and up, and what experts have and what
  /// is extra.
  [[nodiscard]] std::int64_t row() const {
    return 2 * hidden + 2 * q + (shape.has_qk_norm() ? k : 0) + lse + 2 * ffn + extra.attention +
           extra.mlp + experts.router + experts.choice;
  }
  /// The number of the rank's row; 0 if tp is 1.
  [[nodiscard]] std::int64_t index() const { return tp > 1 ? sizeof(std::int64_t) : 0; }
  [[nodiscard]] std::int64_t rope() const { return element * shape.head_dim; }

  LayerShape shape;  ///< the rank's
  std::int32_t tp;
  std::int64_t element, accumulator;
  std::int64_t hidden, q, k, ffn, lse;
  std::int64_t gathered;  ///< a hidden state of all tensor-parallel ranks; 0 if tp is 1
  ExpertWidths experts;
  ExtraWidths extra;
  LayerRuntime runtime;
};

/// The peak of one layer of a forward MicroPack beyond the rows that it keeps.
[[nodiscard]] std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                                   Recompute recompute,
                                                   const ExchangeSide* exchange = nullptr);

/// Bytes of a token that a layer keeps only because its weight gradients are put off. Each tensor
/// counts from the moment of backward at which it would otherwise not exist. All 0 = weight
/// gradients are not put off.
struct PutOffWidths {
  std::int64_t act = 0;      ///< silu(gate) ⊙ up
  std::int64_t gate_up = 0;  ///< gradient of gate and up
  std::int64_t norm = 0;     ///< each of the normalised inputs
  std::int64_t out = 0;      ///< attention output
  std::int64_t qkv = 0;      ///< gradient of q, k and v

  [[nodiscard]] bool any() const { return qkv > 0; }
};

/// `views`: the MicroPack's rows are views of tensors that it shares with other MicroPacks.
/// Operands that are such views are copied, so they count. Operands in rows of its own do not.
[[nodiscard]] PutOffWidths put_off_widths(const LayerWidths& w, Recompute recompute, bool views);

/// The peak of one layer of a backward MicroPack beyond the stores and the dK and dV that it opens
/// there. Copied rows are not counted. K and V that it closes on the way make room for what
/// follows.
[[nodiscard]] std::int64_t layer_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                    const SequenceLengths& lengths,
                                                    Recompute recompute,
                                                    const PutOffWidths& put_off = {},
                                                    const ExchangeSide* exchange = nullptr);

/// The peak of a stage's put-off weight gradients beyond their operands. Each product frees its
/// operands, so the first layer has the peak. Tensor-parallel ranks gather the hidden states of one
/// product at a time.
[[nodiscard]] std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens);

}  // namespace slimpack
