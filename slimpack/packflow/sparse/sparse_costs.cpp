#include "slimpack/packflow/sparse/sparse_costs.h"

#include <algorithm>
#include <utility>

#include "slimpack/packflow/sparse/block_attention.h"

namespace slimpack {
namespace {

/// REQUIRES: one of kBlockSizes.
const BlockCosts& costs_of(const SparseCosts& costs, std::int64_t block) {
  const auto place = std::ranges::find(kBlockSizes, block) - kBlockSizes.begin();
  return costs.blocks[static_cast<std::size_t>(place)];
}

}  // namespace

double dense_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.dense_pair * queries.dense_pairs();
}

double least_sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.blocks.front().own * static_cast<double>(queries.count());
}

double sparse_seconds(const SparseCosts& costs, const QueryBlocks& slice, const KeptKeys& kept) {
  const BlockCosts& block_costs = costs_of(costs, kept.block);
  const QueryBlocks queries = slice.in_blocks_of(kept.block);
  double seconds = costs.packed_key * static_cast<double>(kept.columns.size());
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const BlockKeys& block = kept.blocks[static_cast<std::size_t>(b)];
    const BlockCalls calls = calls_of(block);
    const auto rows = static_cast<double>(queries.queries(b).keys());
    // A part of a block takes its share: it is seldom, and short.
    seconds += block_costs.own * rows / static_cast<double>(kept.block) +
               block_costs.call * static_cast<double>(calls.calls) +
               costs.packed_key * static_cast<double>(calls.packed_keys) +
               block_costs.pair * rows * static_cast<double>(block.keys());
  }
  return seconds;
}

KeptKeys in_fastest_blocks(const SparseCosts& costs, const QueryBlocks& queries,
                           const KeptKeys& kept) {
  KeptKeys best = kept;
  double least = sparse_seconds(costs, queries, kept);
  for (const std::int64_t size : kBlockSizes) {
    KeptKeys larger = joined(kept, queries, size);
    const double seconds = sparse_seconds(costs, queries, larger);
    if (seconds < least) {
      least = seconds;
      best = std::move(larger);
    }
  }
  return best;
}

double choosing_seconds(const SparseCosts& costs, const ChoosingWork& work) {
  return costs.choice + costs.product_pair * work.products + costs.weight_pair * work.weights +
         costs.moved_row * work.copied_rows;
}

}  // namespace slimpack
