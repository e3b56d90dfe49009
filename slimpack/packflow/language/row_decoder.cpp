#include "slimpack/packflow/language/row_decoder.h"

#include <ATen/Parallel.h>

#include <vector>

#include "slimpack/packflow/decode/panel_product.h"

namespace slimpack {
namespace {

/// Null where the tensor is undefined.
template <class T>
const T* elements(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

}  // namespace

template <class Input>
RowsView<Input> RowDecoder<Input>::normed(const at::Tensor& norm_H,
                                          RowsView<const Sum<Input>> x_TH) {
  normed_TH_.resize(x_TH.rows, shape_.hidden_size);
  norm_rows<Input>(x_TH, shape_.hidden_size, elements<Sum<Input>>(norm_H), rms_norm_eps_,
                   normed_TH_.view());
  return normed_TH_.view();
}

/// Norms of each head of q and of k, in place.
template <class Input>
void RowDecoder<Input>::norm_heads(const DecoderLayerWeights& weights,
                                   RowsView<Sum<Input>> qkv_TO) {
  const std::int64_t dim = shape_.head_dim;
  for (std::int64_t r = 0; r < qkv_TO.rows; ++r) {
    const auto norm = [&](std::int64_t begin, std::int64_t heads, const at::Tensor& weight_D) {
      const RowsView<Sum<Input>> x{qkv_TO.row(r) + begin, heads, dim};
      norm_rows<Sum<Input>>(x, dim, elements<Sum<Input>>(weight_D), rms_norm_eps_, x);
    };
    norm(0, shape_.num_heads, weights.q_norm_D);
    norm(shape_.q_width(), shape_.num_kv_heads, weights.k_norm_D);
  }
}

template <class Input>
void RowDecoder<Input>::rotate(RowsView<Sum<Input>> qkv_TO, const RowPlaces<Sum<Input>>& places) {
  const std::int64_t dim = shape_.head_dim;
  for (std::int64_t r = 0; r < qkv_TO.rows; ++r) {
    const std::int64_t angle = places.positions[static_cast<std::size_t>(r)] * (dim / 2);
    rotate_heads(qkv_TO.row(r), shape_.num_heads + shape_.num_kv_heads, dim,
                 RopeAngles<Sum<Input>>{places.cos_LD + angle, places.sin_LD + angle});
  }
}

/// Writes keys and values of a sequence's rows to its cache.
template <class Input>
void RowDecoder<Input>::keep(RowsView<const Sum<Input>> qkv_TO, const SequenceRows& sequence,
                             const CachedHeads<Input>& heads) {
  const std::int64_t dim = shape_.head_dim;
  const std::int64_t first = sequence.cache.size() + sequence.own.keys() - sequence.own.rows();
  for (std::int64_t r = 0; r < qkv_TO.rows; ++r) {
    const Sum<Input>* const k = qkv_TO.row(r) + shape_.q_width();
    const Sum<Input>* const v = k + shape_.k_width();
    for (std::int64_t head = 0; head < heads.heads; ++head) {
      const std::int64_t to = (head * heads.capacity + first + r) * dim;
      std::copy_n(k + head * dim, dim, heads.k + to);
      std::copy_n(v + head * dim, dim, heads.v + to);
    }
  }
}

/// Each sequence's rows attend to its own keys. A thread takes whole sequences; of one alone, all
/// threads take parts.
template <class Input>
void RowDecoder<Input>::attend(std::size_t layer, std::span<const SequenceRows> sequences) {
  std::vector<std::int64_t> begin{0};
  for (const SequenceRows& sequence : sequences)
    begin.push_back(begin.back() + sequence.own.rows());
  const auto count = static_cast<std::int64_t>(sequences.size());
  at::parallel_for(0, count, 1, [&](std::int64_t from, std::int64_t to) {
    for (auto s = static_cast<std::size_t>(from); s < static_cast<std::size_t>(to); ++s) {
      const auto& [cache, own] = sequences[s];
      const auto qkv_TO = qkv_TO_.view().narrow(begin[s], own.rows());
      const CachedHeads<Input> heads = cache.template heads<Input>(layer);
      keep(qkv_TO, sequences[s], heads);
      attend_rows<Input>(qkv_TO, shape_.num_heads, heads, cache.size(), own,
                         out_TQ_.view().narrow(begin[s], own.rows()));
    }
  });
}

template <class Input>
void RowDecoder<Input>::add_attention(const DecoderLayerWeights& weights,
                                      RowsView<const Input> normed, std::size_t layer,
                                      const RowPlaces<Sum<Input>>& places,
                                      RowsView<Sum<Input>> x_TH) {
  const std::int64_t width = shape_.q_width() + 2 * shape_.k_width();
  qkv_TO_.resize(x_TH.rows, width);
  out_TQ_.resize(x_TH.rows, shape_.q_width());
  multiply<Input>(weights.qkv.panels(), normed, qkv_TO_.view());
  add_bias(qkv_TO_.view(), width, elements<Sum<Input>>(weights.qkv_bias_O));
  if (shape_.has_qk_norm()) norm_heads(weights, qkv_TO_.view());
  rotate(qkv_TO_.view(), places);
  attend(layer, places.sequences);
  multiply<Input>(weights.output.panels(), out_TQ_.view(), x_TH, Into::kAdd);
  add_bias(x_TH, shape_.hidden_size, elements<Sum<Input>>(weights.output_bias_H));
}

template <class Input>
void RowDecoder<Input>::add_mlp(const DecoderLayerWeights& weights, RowsView<Sum<Input>> x_TH) {
  const std::int64_t width = shape_.dense_width;
  gate_up_TO_.resize(x_TH.rows, 2 * width);
  act_TF_.resize(x_TH.rows, width);
  multiply<Input>(weights.gate_up.panels(), normed(weights.mlp_norm_H, x_TH), gate_up_TO_.view());
  add_bias(gate_up_TO_.view(), 2 * width, elements<Sum<Input>>(weights.gate_up_bias_O));
  gate_rows<Input>(gate_up_TO_.view(), width, act_TF_.view());
  multiply<Input>(weights.down.panels(), act_TF_.view(), x_TH, Into::kAdd);
  add_bias(x_TH, shape_.hidden_size, elements<Sum<Input>>(weights.down_bias_H));
}

template <class Input>
void RowDecoder<Input>::run_layer(const DecoderLayerWeights& weights, std::size_t layer,
                                  const RowPlaces<Sum<Input>>& places, RowsView<Sum<Input>> x_TH) {
  add_attention(weights, normed(weights.attention_norm_H, x_TH), layer, places, x_TH);
  add_mlp(weights, x_TH);
}

template <class Input>
void RowDecoder<Input>::head(const at::Tensor& norm_H, const PanelMatrix& head_VH,
                             RowsView<const Sum<Input>> x_TH, RowsView<Sum<Input>> y_TV) {
  multiply<Input>(head_VH, normed(norm_H, x_TH), y_TV);
}

template class RowDecoder<double>;
template class RowDecoder<float>;
template class RowDecoder<c10::BFloat16>;

}  // namespace slimpack
