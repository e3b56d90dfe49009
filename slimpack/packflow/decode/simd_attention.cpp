#include <array>
#include <cmath>

#include "slimpack/packflow/decode/query_block.h"
#include "slimpack/packflow/decode/simd.h"

namespace slimpack {
namespace {

constexpr std::int64_t kBlockKeys = 64;
constexpr std::int64_t kMaxHeadDim = 256;

/// Keys as numbers of the type that sums have: the keys themselves, or a copy.
template <class Input>
[[gnu::always_inline]] inline const Sum<Input>* widened(const Input* x, std::int64_t count,
                                                        Sum<Input>* copy) {
  if constexpr (std::is_same_v<Input, Sum<Input>>) {
    return x;
  } else {
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(x);
    auto* const to = reinterpret_cast<std::uint32_t*>(copy);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint32_t>(bits[i]) << 16U;
    return copy;
  }
}

/// scores[key] = q · key for each lane. Four keys at once, so that a query is loaded for four.
template <class T>
[[gnu::always_inline]] inline void score_keys(const Lanes<T>* q, const T* keys,
                                              std::int64_t head_dim, std::int64_t count,
                                              Lanes<T>* scores) {
  std::int64_t key = 0;
  for (; key + 4 <= count; key += 4) {
    const T* const k = keys + key * head_dim;
    Lanes<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
    for (std::int64_t d = 0; d < head_dim; ++d) {
      s0 += q[d] * k[d];
      s1 += q[d] * k[head_dim + d];
      s2 += q[d] * k[2 * head_dim + d];
      s3 += q[d] * k[3 * head_dim + d];
    }
    scores[key] = s0, scores[key + 1] = s1, scores[key + 2] = s2, scores[key + 3] = s3;
  }
  for (; key < count; ++key) {
    Lanes<T> s = {};
    for (std::int64_t d = 0; d < head_dim; ++d) s += q[d] * keys[key * head_dim + d];
    scores[key] = s;
  }
}

/// out[d] += Σ weight · value[d]. Eight dimensions at once, so that their sums stay in registers.
template <class T>
[[gnu::always_inline]] inline void add_values(const Lanes<T>* weights, const T* values,
                                              std::int64_t head_dim, std::int64_t count,
                                              Lanes<T>* out) {
  constexpr std::int64_t kAtOnce = 8;
  std::int64_t d = 0;
  for (; d + kAtOnce <= head_dim; d += kAtOnce) {
    Lanes<T> sums[kAtOnce];
    for (std::int64_t i = 0; i < kAtOnce; ++i) sums[i] = out[d + i];
    for (std::int64_t key = 0; key < count; ++key)
      for (std::int64_t i = 0; i < kAtOnce; ++i)
        sums[i] += weights[key] * values[key * head_dim + d + i];
    for (std::int64_t i = 0; i < kAtOnce; ++i) out[d + i] = sums[i];
  }
  for (; d < head_dim; ++d)
    for (std::int64_t key = 0; key < count; ++key)
      out[d] += weights[key] * values[key * head_dim + d];
}

template <class Input>
struct AttendBlock {
  [[gnu::always_inline]] void operator()(QueryBlock<Sum<Input>>& block,
                                         const KeyRange<Input>& range) const {
    using T = Sum<Input>;
    std::array<T, kBlockKeys * kMaxHeadDim> copy;
    Lanes<T> q[kMaxHeadDim], out[kMaxHeadDim], scores[kBlockKeys];
    const std::int64_t dim = range.head_dim;
    const T scale = 1 / std::sqrt(static_cast<T>(dim));
    for (std::int64_t d = 0; d < dim; ++d) {
      out[d] = Lanes<T>{};
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        q[d][lane] = block.q_LD[static_cast<std::size_t>(lane * dim + d)] * scale;
    }
    for (std::int64_t key = range.begin; key < range.end; key += kBlockKeys) {
      const std::int64_t count = std::min(kBlockKeys, range.end - key);
      const T* const k = widened<Input>(range.k + key * dim, count * dim, copy.data());
      score_keys<T>(q, k, dim, count, scores);
      mask_scores<Input>(range, block, key, count, scores);
      Lanes<T> shrink;
      weigh_scores<T>(block, count, scores, shrink);
      for (std::int64_t d = 0; d < dim; ++d) out[d] *= shrink;
      const T* const v = widened<Input>(range.v + key * dim, count * dim, copy.data());
      add_values<T>(scores, v, dim, count, out);
    }
    for (std::int64_t d = 0; d < dim; ++d)
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        block.out_LD[static_cast<std::size_t>(lane * dim + d)] = out[d][lane];
  }
};

}  // namespace

template <class Input>
void attend_with_simd(std::span<QueryBlock<Sum<Input>>> blocks, const KeyRange<Input>& range) {
  for (QueryBlock<Sum<Input>>& block : blocks) with_widest_simd(AttendBlock<Input>{}, block, range);
}
template void attend_with_simd(std::span<QueryBlock<double>>, const KeyRange<double>&);
template void attend_with_simd(std::span<QueryBlock<float>>, const KeyRange<float>&);
template void attend_with_simd(std::span<QueryBlock<float>>, const KeyRange<c10::BFloat16>&);

}  // namespace slimpack
