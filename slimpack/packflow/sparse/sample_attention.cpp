// SampleAttention. Versions 1 and 2:
//   1. rows at equal distances: softmax, summed by column
//   2. the fewest columns that reach alpha
//   3. with a window and the last rows
// Version 3 (MLSys 2025):
//   1. the last rows of equal segments: softmax, summed by blocks of columns and of distances
//   2. the fewest of each that reach their thresholds, independently
//   3. their union. Distances from 128·d on, up to 128 of them, lie in two blocks of keys for every
//      block of queries: those d and d + 1 blocks back.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/sparse/methods.h"
#include "slimpack/packflow/sparse/sampled_rows.h"

namespace slimpack {
namespace {

std::vector<RowSample> samples_of(const SampledBlocks& method, const QueryBlocks& queries,
                                  std::int64_t thinning) {
  const std::int64_t segments = (queries.tokens() + method.segment - 1) / method.segment;
  std::vector<RowSample> samples;
  for (std::int64_t s = 0; s < segments; ++s) {
    const std::int64_t begin = queries.tokens() * s / segments;
    const std::int64_t end = queries.tokens() * (s + 1) / segments;
    const std::int64_t rows = std::min((method.rows + thinning - 1) / thinning, end - begin);
    samples.push_back({queries.prefix() + end - rows, 1, rows});
  }
  return samples;
}

void add(std::vector<double>& sums, const std::vector<double>& more) {
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

}  // namespace

Choose chooser(const SampledBlocks& method, const at::Tensor& k_LD, const QueryBlocks& queries) {
  return [method, &k_LD, &queries](const at::Tensor& q_TD, std::int64_t thinning) {
    BlockMask mask = empty_mask(queries);
    std::vector<double> columns(mask.front().size()), slashes(mask.front().size());
    for (const RowSample& sample : samples_of(method, queries, thinning)) {
      const at::Tensor p_RL = sampled_softmax(q_TD, k_LD, queries.prefix(), sample);
      add(columns, block_sums(p_RL.sum({0})));
      add(slashes, block_sums(distance_sums(p_RL)));
    }
    add_columns(mask, fewest_that_reach(columns, method.alpha_columns));
    std::vector<std::int64_t> distances = fewest_that_reach(slashes, method.alpha_slashes);
    const std::size_t chosen = distances.size();
    for (std::size_t i = 0; i < chosen; ++i) distances.push_back(distances[i] + 1);
    add_distances(mask, distances, queries);
    return kept_blocks(mask, queries);
  };
}

ChoosingWork choosing_work(const SampledBlocks& method, const QueryBlocks& queries,
                           std::int64_t thinning, std::int64_t /*sharing*/) {
  const double pairs = sampled_pairs(samples_of(method, queries, thinning));
  return {pairs, pairs, 0};
}

namespace {

/// Rows whose scores are held at a time.
constexpr std::int64_t kRowsAtOnce = 128;

/// The rows that are looked at: the same ones in whatever slice they are computed, and a slice's
/// last one where it has none of them.
std::vector<RowSample> samples_of(const SampledColumns& method, const QueryBlocks& queries,
                                  std::int64_t thinning) {
  const std::int64_t stride = thinning * std::max<std::int64_t>(1, std::llround(1 / method.rows));
  const std::int64_t first = queries.prefix() + stride - 1 - queries.prefix() % stride;
  if (first >= queries.keys()) return {{queries.keys() - 1, 1, 1}};
  std::vector<RowSample> samples;
  std::int64_t rows = (queries.keys() - 1 - first) / stride + 1;
  for (std::int64_t begin = first; rows > 0; begin += kRowsAtOnce * stride, rows -= kRowsAtOnce)
    samples.push_back({begin, stride, std::min(rows, kRowsAtOnce)});
  return samples;
}

std::int64_t window_of(const SampledColumns& method, const QueryBlocks& queries) {
  return static_cast<std::int64_t>(std::ceil(method.window * static_cast<double>(queries.keys())));
}

std::vector<std::int64_t> chosen_columns(const SampledColumns& method, const at::Tensor& k_LD,
                                         const QueryBlocks& queries, const at::Tensor& q_TD,
                                         std::int64_t thinning) {
  const at::Tensor sum_L = at::zeros({queries.keys()}, q_TD.options().dtype(accumulate_type(q_TD)));
  double rows = 0;
  for (const RowSample& sample : samples_of(method, queries, thinning)) {
    at::Tensor p_RL = sampled_softmax(q_TD, k_LD, queries.prefix(), sample);
    if (method.beyond_window) drop_later_keys(p_RL, window_of(method, queries), sample);
    sum_L.narrow(0, 0, p_RL.size(1)).add_(p_RL.sum({0}));
    rows += static_cast<double>(sample.rows);
  }
  const std::vector<double> sums = as_doubles(sum_L);
  if (!method.beyond_window || method.alpha == 1) return fewest_that_reach(sums, method.alpha);
  double beyond = 0;
  for (const double sum : sums) beyond += sum;
  return fewest_that_sum_to(sums, beyond - (1 - method.alpha) * rows);
}

}  // namespace

Choose chooser(const SampledColumns& method, const at::Tensor& k_LD, const QueryBlocks& queries) {
  return [method, &k_LD, &queries](const at::Tensor& q_TD, std::int64_t thinning) {
    return columns_and_window(chosen_columns(method, k_LD, queries, q_TD, thinning),
                              window_of(method, queries), method.dense_rows, queries);
  };
}

ChoosingWork choosing_work(const SampledColumns& method, const QueryBlocks& queries,
                           std::int64_t thinning, std::int64_t /*sharing*/) {
  const double pairs = sampled_pairs(samples_of(method, queries, thinning));
  return {pairs, pairs, 0};
}

}  // namespace slimpack
