// The seconds of sparse and of dense attention. They decide by which of the two a head is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/sparse/kept_keys.h"
#include "slimpack/packflow/sparse/methods.h"

namespace slimpack {

/// Queries that are computed together: larger blocks run faster, and see more than was chosen.
/// libtorch's kernel takes 32 queries at a time below 192, 64 below 768, and 256 from there on.
constexpr std::array<std::int64_t, 3> kBlockSizes{128, 256, 768};

/// Seconds of a block of some size.
struct BlockCosts {
  double pair = 0;  ///< by query and key before the block
  double call = 0;  ///< a call for such keys, and merging what it gives, whatever their number
  double own = 0;   ///< queries on their own block, and storing what they have found

  bool operator==(const BlockCosts&) const = default;
};

/// Seconds on one machine for one type and head size, of one query head.
struct SparseCosts {
  double dense_pair = 0;  ///< dense attention of a slice, by query-key pair
  std::array<BlockCosts, kBlockSizes.size()> blocks;
  double packed_key = 0;    ///< copying a key and its value
  double moved_row = 0;     ///< copying a key to where its head's keys lie end to end
  double product_pair = 0;  ///< scores of sampled rows
  double weight_pair = 0;   ///< softmax and sums of sampled rows
  double choice = 0;        ///< a choice, whatever its size

  bool operator==(const SparseCosts&) const = default;
};

/// Measures them on this machine with tensors like these: their type, device and heads count, their
/// rows do not. On all threads that libtorch uses here. Cost: a third of a second, for fp32 and 8
/// heads of 64.
[[nodiscard]] SparseCosts measured_sparse_costs(const at::Tensor& q_TND, const KeysValues& kv);

/// Predicted seconds of one head.
[[nodiscard]] double dense_seconds(const SparseCosts& costs, const QueryBlocks& queries);
[[nodiscard]] double sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries,
                                    const KeptKeys& kept);
[[nodiscard]] double choosing_seconds(const SparseCosts& costs, const ChoosingWork& work);

/// The least that a sparse head can take: its queries see their own blocks alone.
[[nodiscard]] double least_sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries);

/// The kept keys in blocks of the size that is fastest.
[[nodiscard]] KeptKeys in_fastest_blocks(const SparseCosts& costs, const QueryBlocks& queries,
                                         const KeptKeys& kept);

}  // namespace slimpack
