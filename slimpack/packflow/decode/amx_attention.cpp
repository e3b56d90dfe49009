#include "slimpack/packflow/decode/query_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "slimpack/packflow/decode/amx_tiles.h"
#endif

namespace slimpack {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kBlockKeys = 128;
constexpr std::int64_t kStepKeys = 32;  ///< that one tile of weights takes
constexpr std::int64_t kTileElements = kTileRows * kTileInputs;

using Pairs = Lanes<std::uint32_t>;  ///< two bf16 numbers in each

/// Two bf16 numbers, rounded to the nearest, even ones of two.
[[gnu::always_inline]] inline void round_to_pairs(const Lanes<float>& low, const Lanes<float>& high,
                                                  Pairs& pairs) {
  const auto low_bits = reinterpret_cast<Pairs>(low), high_bits = reinterpret_cast<Pairs>(high);
  pairs = ((low_bits + 0x7fffU + ((low_bits >> 16U) & 1U)) >> 16U) |
          ((high_bits + 0x7fffU + ((high_bits >> 16U) & 1U)) & 0xffff0000U);
}

/// [16][16] 32-bit numbers, rows to columns.
SLIMPACK_AMX void transpose(const Pairs* from, std::uint32_t* to) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(from + i);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
    b[i + 4] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
    b[i + 8] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
    b[i + 12] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_si512(to + 16 * i, _mm512_shuffle_i32x4(b[i], b[i + 8], 0x88));
    _mm512_storeu_si512(to + 16 * (i + 8), _mm512_shuffle_i32x4(b[i], b[i + 8], 0xdd));
    _mm512_storeu_si512(to + 16 * (i + 4), _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0x88));
    _mm512_storeu_si512(to + 16 * (i + 12), _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0xdd));
  }
}

/// Keys and values of a block in the forms that tiles take; ends are filled with zeros.
class BlockKeys {
 public:
  explicit BlockKeys(std::int64_t head_dim)
      : dim_(head_dim),
        tail_(static_cast<std::size_t>(kStepKeys * head_dim)),
        values_(static_cast<std::size_t>(kBlockKeys * head_dim)) {}

  SLIMPACK_AMX void load(const KeyRange<c10::BFloat16>& range, std::int64_t begin,
                         std::int64_t count) {
    k_ = range.k + begin * dim_;
    whole_ = count / kStepKeys * kStepKeys;
    steps_ = padded_to(count, kStepKeys) / kStepKeys;
    const std::int64_t rest = count - whole_;
    for (std::int64_t step = 0; step < steps_; ++step) {
      const c10::BFloat16* v = range.v + (begin + step * kStepKeys) * dim_;
      if (step * kStepKeys == whole_) v = padded(v, rest);
      interleave(v, values_.data() + step * kStepKeys * dim_);
    }
    if (rest > 0) padded(k_ + whole_ * dim_, rest);
  }

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Sixteen keys from `key` on, [16, D].
  [[nodiscard]] const c10::BFloat16* keys(std::int64_t key) const {
    return key < whole_ ? k_ + key * dim_ : tail_.data() + (key - whole_) * dim_;
  }
  /// Values of 32 keys in 16 dimensions: by pair of keys and dimension, two numbers.
  [[nodiscard]] const c10::BFloat16* values(std::int64_t step, std::int64_t dimension) const {
    return values_.data() + step * kStepKeys * dim_ + dimension / kLanes * kTileElements;
  }

 private:
  const c10::BFloat16* padded(const c10::BFloat16* from, std::int64_t keys) {
    std::copy_n(from, keys * dim_, tail_.begin());
    std::fill(tail_.begin() + keys * dim_, tail_.end(), c10::BFloat16(0.0F));
    return tail_.data();
  }

  SLIMPACK_AMX void interleave(const c10::BFloat16* v, c10::BFloat16* to) const {
    alignas(64) std::array<std::uint16_t, 32> low, high;
    for (std::uint16_t i = 0; i < 16; ++i) {
      low[2 * i] = i, low[2 * i + 1] = 32 + i;
      high[2 * i] = 16 + i, high[2 * i + 1] = 48 + i;
    }
    const __m512i take_low = _mm512_load_si512(low.data());
    const __m512i take_high = _mm512_load_si512(high.data());
    for (std::int64_t d = 0; d < dim_; d += 32) {
      c10::BFloat16* const first = to + d / kLanes * kTileElements;
      for (std::int64_t pair = 0; pair < kTileRows; ++pair) {
        const __m512i even = _mm512_loadu_si512(v + 2 * pair * dim_ + d);
        const __m512i odd = _mm512_loadu_si512(v + (2 * pair + 1) * dim_ + d);
        _mm512_storeu_si512(first + pair * kTileInputs,
                            _mm512_permutex2var_epi16(even, take_low, odd));
        _mm512_storeu_si512(first + kTileElements + pair * kTileInputs,
                            _mm512_permutex2var_epi16(even, take_high, odd));
      }
    }
  }

  std::int64_t dim_;
  const c10::BFloat16* k_ = nullptr;
  std::int64_t whole_ = 0;
  std::int64_t steps_ = 0;
  std::vector<c10::BFloat16> tail_;  ///< of keys, once all values are interleaved
  std::vector<c10::BFloat16> values_;
};

/// Queries as tiles take them: by pair of dimensions and lane, two numbers.
std::vector<c10::BFloat16> interleaved_queries(const QueryBlock<float>& block, std::int64_t dim) {
  std::vector<c10::BFloat16> q(static_cast<std::size_t>(kLanes * dim));
  for (std::int64_t d = 0; d < dim; ++d)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      q[static_cast<std::size_t>(d / 2 * 2 * kLanes + 2 * lane + d % 2)] =
          block.q_LD[static_cast<std::size_t>(lane * dim + d)];
  return q;
}

/// scores[key][lane] of all keys of the block, two times sixteen at once.
SLIMPACK_AMX void score_keys(const BlockKeys& keys, const c10::BFloat16* q, std::int64_t dim,
                             Lanes<float>* scores) {
  constexpr std::int64_t kBytes = 2;
  for (std::int64_t step = 0; step < keys.steps(); ++step) {
    _tile_zero(0);
    _tile_zero(1);
    for (std::int64_t d = 0; d < dim; d += kTileInputs) {
      _tile_loadd(6, q + d * kLanes, kTileBytes);
      _tile_loadd(4, keys.keys(step * kStepKeys) + d, dim * kBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, keys.keys(step * kStepKeys + kTileRows) + d, dim * kBytes);
      _tile_dpbf16ps(1, 5, 6);
    }
    _tile_stored(0, scores + step * kStepKeys, kTileBytes);
    _tile_stored(1, scores + step * kStepKeys + kTileRows, kTileBytes);
  }
}

/// out += weights · values; four times sixteen dimensions at once where there are so many.
SLIMPACK_AMX void add_values(const BlockKeys& keys, const std::uint32_t* weights, std::int64_t dim,
                             float* out) {
  const std::int64_t bytes = dim * 4;
  for (std::int64_t d = 0; d < dim; d += kTileInputs) {
    _tile_loadd(0, out + d, bytes);
    _tile_loadd(1, out + d + kLanes, bytes);
    for (std::int64_t step = 0; step < keys.steps(); ++step) {
      _tile_loadd(4, weights + step * kTileRows * kLanes, kTileBytes);
      _tile_loadd(6, keys.values(step, d), kTileBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, keys.values(step, d + kLanes), kTileBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, out + d, bytes);
    _tile_stored(1, out + d + kLanes, bytes);
  }
}

SLIMPACK_AMX void attend_block(const KeyRange<c10::BFloat16>& range, const BlockKeys& keys,
                               std::int64_t begin, std::int64_t count, const c10::BFloat16* q,
                               QueryBlock<float>& block) {
  const std::int64_t dim = range.head_dim, padded = keys.steps() * kStepKeys;
  Lanes<float> scores[kBlockKeys];
  score_keys(keys, q, dim, scores);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  for (std::int64_t key = 0; key < count; ++key) scores[key] *= scale;
  mask_scores(range, block, begin, count, scores);
  Lanes<float> shrink;
  weigh_scores(block, count, scores, shrink);
  for (std::int64_t key = count; key < padded; ++key) scores[key] = Lanes<float>{};
  alignas(64) std::array<std::uint32_t, kBlockKeys / 2 * kLanes> weights;
  for (std::int64_t step = 0; step < keys.steps(); ++step) {
    Pairs pairs[kTileRows];
    for (std::int64_t i = 0; i < kTileRows; ++i)
      round_to_pairs(scores[step * kStepKeys + 2 * i], scores[step * kStepKeys + 2 * i + 1],
                     pairs[i]);
    transpose(pairs, weights.data() + step * kTileRows * kLanes);
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane)
    for (std::int64_t d = 0; d < dim; ++d)
      block.out_LD[static_cast<std::size_t>(lane * dim + d)] *= shrink[lane];
  add_values(keys, weights.data(), dim, block.out_LD.data());
}

}  // namespace

// 1. Scores: tiles of keys by queries, keys as they lie.
// 2. Weights: of sixteen queries at once, a key a vector.
// 3. Values: tiles of queries by dimensions, values interleaved by pairs of keys once for all
// blocks.
void attend_with_amx(std::span<QueryBlock<float>> blocks, const KeyRange<c10::BFloat16>& range) {
  const Tiles tiles({16, 16, 16, 16, 16, 16, 16, 16});
  std::vector<std::vector<c10::BFloat16>> q;
  for (const QueryBlock<float>& block : blocks)
    q.push_back(interleaved_queries(block, range.head_dim));
  BlockKeys keys(range.head_dim);
  for (std::int64_t key = range.begin; key < range.end; key += kBlockKeys) {
    const std::int64_t count = std::min(kBlockKeys, range.end - key);
    keys.load(range, key, count);
    for (std::size_t b = 0; b < blocks.size(); ++b)
      attend_block(range, keys, key, count, q[b].data(), blocks[b]);
  }
}
#else
void attend_with_amx(std::span<QueryBlock<float>>, const KeyRange<c10::BFloat16>&) {}
#endif

}  // namespace slimpack
