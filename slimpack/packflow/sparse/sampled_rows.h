// Sampled rows: the softmax of some queries' causal scores, and what is summed and chosen of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace slimpack {

/// Some queries of a head at equal distances.
struct RowSample {
  std::int64_t first = 0;  ///< position in the sequence
  std::int64_t stride = 1;
  std::int64_t rows = 0;

  [[nodiscard]] std::int64_t position(std::int64_t row) const { return first + row * stride; }
  [[nodiscard]] std::int64_t last() const { return position(rows - 1); }
};

/// Pairs of a row and a key up to its sample's last row.
[[nodiscard]] double sampled_pairs(const std::vector<RowSample>& samples);

/// Softmax of scaled products of rows and keys, where row r sees keys 0 to position(r): [rows, L]
/// for keys 0 to the last row's own, in the accumulate type.
[[nodiscard]] at::Tensor causal_softmax(const at::Tensor& q_RD, const at::Tensor& k_LD,
                                        double scale, const RowSample& sample);

/// The causal_softmax of a head's queries, given from position `prefix` on, with attention's scale.
/// REQUIRES: at least one row, all of them given.
[[nodiscard]] at::Tensor sampled_softmax(const at::Tensor& q_TD, const at::Tensor& k_LD,
                                         std::int64_t prefix, const RowSample& sample);

/// Sets to 0 what row r of x has of keys later than position(r) − reach.
void drop_later_keys(at::Tensor& x_RL, std::int64_t reach, const RowSample& sample);

/// Sums of consecutive blocks of 128 entries, the last of them maybe shorter: double, on the CPU.
[[nodiscard]] std::vector<double> block_sums(const at::Tensor& x_L);

/// The sums of x_RL along diagonals, by how far a row's key lies back: entry d is the sum over
/// rows r of x[r, L − R + r − d]. So row R − 1 belongs to key L − 1, the row before it to the key
/// before that, as in a sample of stride 1.
[[nodiscard]] at::Tensor distance_sums(const at::Tensor& x_RL);

/// The fewest entries whose sum reaches `share` of the sum of all, ascending; of equal entries the
/// first. All of them for a share of 1, those that are 0, too.
[[nodiscard]] std::vector<std::int64_t> fewest_that_reach(const std::vector<double>& values,
                                                          double share);
/// The fewest entries whose sum reaches `sum`; all of them where the sum of all is less.
[[nodiscard]] std::vector<std::int64_t> fewest_that_sum_to(const std::vector<double>& values,
                                                           double sum);

/// The `count` largest entries, the first of equal ones, ascending; all if there are fewer.
[[nodiscard]] std::vector<std::int64_t> largest_entries(const std::vector<double>& values,
                                                        std::int64_t count);

/// A tensor's entries as doubles on the CPU.
[[nodiscard]] std::vector<double> as_doubles(const at::Tensor& x);

}  // namespace slimpack
