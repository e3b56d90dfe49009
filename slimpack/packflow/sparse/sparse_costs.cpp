#include "slimpack/packflow/sparse/sparse_costs.h"

#include "slimpack/packflow/sparse/block_attention.h"

namespace slimpack {

double dense_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.dense_pair * queries.dense_pairs();
}

double least_sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.own_block * static_cast<double>(queries.count());
}

double sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries, const KeptKeys& kept) {
  double seconds = least_sparse_seconds(costs, queries) +
                   costs.packed_key * static_cast<double>(kept.columns.size());
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const BlockKeys& block = kept.blocks[static_cast<std::size_t>(b)];
    const BlockCalls calls = calls_of(block);
    seconds += costs.block_call * static_cast<double>(calls.calls) +
               costs.packed_key * static_cast<double>(calls.packed_keys) +
               costs.block_pair * static_cast<double>(queries.queries(b).keys()) *
                   static_cast<double>(block.keys());
  }
  return seconds;
}

double choosing_seconds(const SparseCosts& costs, const ChoosingWork& work) {
  return costs.choice + costs.product_pair * work.products + costs.weight_pair * work.weights +
         costs.moved_row * work.copied_rows;
}

}  // namespace slimpack
