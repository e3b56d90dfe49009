#include "slimpack/packflow/language/key_value_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {

KeyValueCache::KeyValueCache(const Decoder& shape, Dtype dtype, at::Device device) {
  const auto options = at::dtype(compute_type(dtype)).device(device);
  for (std::size_t l = 0; l < shape.kind_of_layer.size(); ++l) {
    const LayerShape& layer = shape.layer(l);
    windows_.push_back(layer.window);
    k_GLD_.push_back(at::empty({layer.num_kv_heads, 0, layer.head_dim}, options));
    v_GLD_.push_back(at::empty({layer.num_kv_heads, 0, layer.head_dim}, options));
  }
}

void KeyValueCache::reserve(std::int64_t tokens) {
  if (tokens <= capacity_) return;
  capacity_ = std::max(tokens, capacity_ + capacity_ / 2);
  const auto grow = [&](at::Tensor& x_GLD) {
    at::Tensor grown = at::empty({x_GLD.size(0), capacity_, x_GLD.size(2)}, x_GLD.options());
    grown.narrow(1, 0, size_).copy_(x_GLD.narrow(1, 0, size_));
    x_GLD = std::move(grown);
  };
  std::ranges::for_each(k_GLD_, grow);
  std::ranges::for_each(v_GLD_, grow);
}

KeysValues KeyValueCache::rows(std::size_t layer, std::int64_t end) const {
  return {k_GLD_[layer].narrow(1, 0, end).transpose(0, 1),
          v_GLD_[layer].narrow(1, 0, end).transpose(0, 1)};
}

template <class Input>
CachedHeads<Input> KeyValueCache::heads(std::size_t layer) const {
  const at::Tensor& k = k_GLD_[layer];
  return {k.mutable_data_ptr<Input>(),
          v_GLD_[layer].mutable_data_ptr<Input>(),
          k.size(0),
          k.size(1),
          k.size(2),
          windows_[layer]};
}
template CachedHeads<double> KeyValueCache::heads(std::size_t) const;
template CachedHeads<float> KeyValueCache::heads(std::size_t) const;
template CachedHeads<c10::BFloat16> KeyValueCache::heads(std::size_t) const;

void KeyValueCache::keep(std::int64_t begin, std::span<const std::int32_t> rows) {
  const auto kept = static_cast<std::int64_t>(rows.size());
  // A row moves towards the front, and those before it are in their places already.
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int64_t from = begin + rows[static_cast<std::size_t>(i)];
    if (from == begin + i) continue;
    for (const auto* tensors : {&k_GLD_, &v_GLD_})
      for (const at::Tensor& x_GLD : *tensors)
        x_GLD.select(1, begin + i).copy_(x_GLD.select(1, from));
  }
  size_ = begin + kept;
}

Bytes KeyValueCache::bytes() const {
  std::int64_t bytes = 0;
  for (const auto* tensors : {&k_GLD_, &v_GLD_})
    for (const at::Tensor& x_GLD : *tensors) bytes += static_cast<std::int64_t>(x_GLD.nbytes());
  return Bytes(bytes);
}

}  // namespace slimpack
