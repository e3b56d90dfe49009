// A decoder on few rows, of one sequence or of several, on a CPU: what a decoded token takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <variant>

#include "slimpack/packflow/decode/row_attention.h"
#include "slimpack/packflow/decode/row_operators.h"
#include "slimpack/packflow/decode/rows.h"
#include "slimpack/packflow/language/decoder_weights.h"
#include "slimpack/packflow/language/key_value_cache.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// One sequence's rows among those of a pass. References.
struct SequenceRows {
  const KeyValueCache& cache;  ///< the keys before their own, with room for these
  const OwnKeys& own;
};

/// Where the rows of a pass stand. References.
template <class T>
struct RowPlaces {
  std::span<const SequenceRows> sequences;  ///< in the order of their rows
  std::span<const std::int64_t> positions;  ///< by row
  const T* cos_LD;                          ///< by position: D/2 each
  const T* sin_LD;
};

/// Memory of rows between operators, kept from pass to pass, and the layer's blocks that use it.
/// Not thread-safe.
template <class Input>
class RowDecoder {
 public:
  RowDecoder(const LayerShape& layer, double rms_norm_eps)
      : shape_(layer), rms_norm_eps_(rms_norm_eps) {}

  /// x += attention of `normed`, its norm; writes keys and values of the rows to their caches. The
  /// inputs of q, k and v may be wider than x.
  void add_attention(const DecoderLayerWeights& weights, RowsView<const Input> normed,
                     std::size_t layer, const RowPlaces<Sum<Input>>& places,
                     RowsView<Sum<Input>> x_TH);

  /// x += MLP of its norm.
  void add_mlp(const DecoderLayerWeights& weights, RowsView<Sum<Input>> x_TH);

  /// x = layer(x).
  void run_layer(const DecoderLayerWeights& weights, std::size_t layer,
                 const RowPlaces<Sum<Input>>& places, RowsView<Sum<Input>> x_TH);

  /// Rows of a matrix of the model, by the norm of x: the head. `y` has room for them.
  void head(const at::Tensor& norm_H, const PanelMatrix& head_VH, RowsView<const Sum<Input>> x_TH,
            RowsView<Sum<Input>> y_TV);

  /// Rows of the norm of x, until the next call.
  [[nodiscard]] RowsView<Input> normed(const at::Tensor& norm_H, RowsView<const Sum<Input>> x_TH);

 private:
  void norm_heads(const DecoderLayerWeights& weights, RowsView<Sum<Input>> qkv_TO);
  void rotate(RowsView<Sum<Input>> qkv_TO, const RowPlaces<Sum<Input>>& places);
  void keep(RowsView<const Sum<Input>> qkv_TO, const SequenceRows& sequence,
            const CachedHeads<Input>& heads);
  void attend(std::size_t layer, std::span<const SequenceRows> sequences);

  LayerShape shape_;  ///< of every layer, but for its window, which the caches have
  double rms_norm_eps_;
  RowBuffer<Input> normed_TH_;
  RowBuffer<Sum<Input>> qkv_TO_;
  RowBuffer<Input> out_TQ_;
  RowBuffer<Sum<Input>> gate_up_TO_;
  RowBuffer<Input> act_TF_;
};

/// The row decoder of whichever type a model computes in.
using AnyRowDecoder =
    std::variant<RowDecoder<double>, RowDecoder<float>, RowDecoder<c10::BFloat16>>;

}  // namespace slimpack
