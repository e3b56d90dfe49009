// SampleAttention, version 3 (MLSys 2025):
//   1. the last rows of equal segments: softmax, summed by blocks of columns and of distances
//   2. the fewest of each that reach their thresholds, independently
//   3. their union. Distances from 128·d on, up to 128 of them, lie in two blocks of keys for every
//      block of queries: those d and d + 1 blocks back.
#include <algorithm>
#include <vector>

#include "slimpack/packflow/sparse/choosers.h"
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

}  // namespace slimpack
