// Sixteen queries of one key head and what they have seen of the keys: what attention's kernels for
// few rows work on.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/packflow/decode/row_attention.h"
#include "slimpack/packflow/decode/rows.h"
#include "slimpack/packflow/decode/simd.h"

namespace slimpack {

template <class T>
struct QueryBlock {
  std::vector<T> q_LD;    ///< by lane, not scaled
  std::vector<T> out_LD;  ///< Σ e^(score − highest) · value
  Lanes<T> highest = Lanes<T>{} - std::numeric_limits<T>::infinity();
  Lanes<T> sum = {};                       ///< Σ e^(score − highest)
  std::array<std::int64_t, kLanes> row{};  ///< by lane
};

/// Keys [begin, end) of one head.
template <class Input>
struct KeyRange {
  const Input* k = nullptr;  ///< of key 0
  const Input* v = nullptr;
  std::int64_t head_dim = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t before = 0;  ///< keys before the own ones
  std::int64_t clear = 0;   ///< all queries see the keys from here to `before`
  std::int64_t window = 0;  ///< CachedHeads::window
  const OwnKeys* own = nullptr;
};

/// Scores [key][lane] of keys from `begin` on: −∞ where a query does not see the key.
template <class Input>
[[gnu::always_inline]] inline void mask_scores(const KeyRange<Input>& range,
                                               const QueryBlock<Sum<Input>>& block,
                                               std::int64_t begin, std::int64_t count,
                                               Lanes<Sum<Input>>* scores) {
  const auto mask = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t key = from; key < to; ++key)
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        if (!range.own->sees(block.row[static_cast<std::size_t>(lane)], key - range.before,
                             range.window))
          scores[key - begin][lane] = -std::numeric_limits<Sum<Input>>::infinity();
  };
  mask(begin, std::min(begin + count, range.clear));
  mask(std::max(begin, range.before), begin + count);
}

/// Scores become weights e^(score − highest). `scale` of what was seen before takes that to the new
/// highest.
template <class T>
[[gnu::always_inline]] inline void weigh_scores(QueryBlock<T>& block, std::int64_t count,
                                                Lanes<T>* scores, Lanes<T>& scale) {
  Lanes<T> highest = block.highest;
  for (std::int64_t key = 0; key < count; ++key)
    highest = scores[key] > highest ? scores[key] : highest;
  // A query that has seen no key yet would be ∞ − ∞.
  const Lanes<T> base = highest > -std::numeric_limits<T>::max() ? highest : Lanes<T>{};
  scale = block.highest - base;
  exp_lanes(scale);
  Lanes<T> sum = block.sum * scale;
  for (std::int64_t key = 0; key < count; ++key) {
    scores[key] -= base;
    exp_lanes(scores[key]);
    sum += scores[key];
  }
  block.sum = sum;
  block.highest = highest;
}

/// Attends with blocks of queries of one key head.
template <class Input>
void attend_with_simd(std::span<QueryBlock<Sum<Input>>> blocks, const KeyRange<Input>& range);

/// Attends with blocks of queries of one key head by AMX, which takes 32 dimensions at once.
/// REQUIRES: has_amx(); whole steps.
inline constexpr std::int64_t kAmxDimensions = 32;
void attend_with_amx(std::span<QueryBlock<float>> blocks, const KeyRange<c10::BFloat16>& range);

}  // namespace slimpack
