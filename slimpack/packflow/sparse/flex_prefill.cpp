// FlexPrefill, as its authors' code has it:
//   1. the last 128 queries: softmax, summed by column and by distance
//   2. how many columns, and how many distances, reach gamma; the best blocks of as many tokens,
//      among them the first block of columns and the nearest of distances
//   3. where the mean of these queries predicts the columns from the means of blocks of keys: only
//      min_keys of both, and the best blocks by this prediction, until they reach gamma
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/sparse/methods.h"
#include "slimpack/packflow/sparse/sampled_rows.h"

namespace slimpack {
namespace {

RowSample last_rows(const QueryBlocks& queries, std::int64_t thinning) {
  const std::int64_t rows = std::min((kSparseBlock + thinning - 1) / thinning, queries.tokens());
  return {queries.keys() - rows, 1, rows};
}

std::int64_t blocks_of(std::int64_t tokens) {
  return (tokens + kSparseBlock - 1) / kSparseBlock;
}

/// Means of blocks of rows, the sequence's blocks: `first` is the position of the first row.
at::Tensor block_means(const at::Tensor& x_TD, std::int64_t first) {
  const auto type = accumulate_type(x_TD);
  const std::int64_t rows = x_TD.size(0);
  const std::int64_t head = std::min((kSparseBlock - first % kSparseBlock) % kSparseBlock, rows);
  const std::int64_t whole = (rows - head) / kSparseBlock * kSparseBlock;
  std::vector<at::Tensor> means;
  const auto add = [&](std::int64_t begin, std::int64_t count, std::int64_t in_block) {
    if (count > 0)
      means.push_back(
          x_TD.narrow(0, begin, count).unflatten(0, {-1, in_block}).mean({1}, false, type));
  };
  add(0, head, head);
  add(head, whole, kSparseBlock);
  add(head + whole, rows - head - whole, rows - head - whole);
  return joined_rows(means);
}

/// Square root of the Jensen–Shannon divergence, natural logarithms.
double distance_between(const std::vector<double>& p, const std::vector<double>& q) {
  const auto part = [](double x, double middle) { return x > 0 ? x * std::log(x / middle) : 0; };
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double middle = (p[i] + q[i]) / 2;
    sum += (part(p[i], middle) + part(q[i], middle)) / 2;
  }
  return std::sqrt(std::max(0.0, sum));
}

/// Blocks of the best that hold as many tokens as reach gamma. `always` is among them.
std::vector<std::int64_t> best_blocks(const at::Tensor& x_L, std::int64_t least,
                                      const FlexPrefill& method, bool predicted) {
  std::vector<double> sums = block_sums(x_L);
  if (method.gamma == 1 && !predicted) return largest_entries(sums, std::ssize(sums));
  const std::int64_t count =
      predicted
          ? least
          : std::max(
                least,
                std::ssize(fewest_that_reach(as_doubles(x_L), method.gamma)) / kSparseBlock + 1);
  sums.front() = std::numeric_limits<double>::infinity();
  return largest_entries(sums, count);
}

class Flex {
 public:
  Flex(const FlexPrefill& method, const at::Tensor& k_LD, const QueryBlocks& queries)
      : method_(method), k_LD_(k_LD), queries_(queries), mean_k_BD_(block_means(k_LD, 0)) {}

  [[nodiscard]] KeptKeys choose(const at::Tensor& q_TD, std::int64_t thinning) const {
    const RowSample sample = last_rows(queries_, thinning);
    const at::Tensor p_RL = sampled_softmax(q_TD, k_LD_, queries_.prefix(), sample);
    const at::Tensor columns_L = p_RL.mean({0}), slashes_L = distance_sums(p_RL);
    const bool predicted =
        distance_between(predicted_columns(q_TD, sample), block_sums(columns_L)) < method_.tau;
    const std::int64_t least = std::max<std::int64_t>(1, blocks_of(method_.min_keys));
    BlockMask mask = empty_mask(queries_);
    add_columns(mask, best_blocks(columns_L, least, method_, predicted));
    add_distances(mask, best_blocks(slashes_L, least, method_, predicted), queries_);
    if (predicted) add_predicted(mask, q_TD);
    return kept_blocks(mask, queries_);
  }

 private:
  /// Scores of means of queries and of keys.
  [[nodiscard]] at::Tensor scores(const at::Tensor& mean_q_BD) const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(k_LD_.size(1)));
    return at::mm(mean_q_BD, mean_k_BD_.t()).mul_(scale);
  }

  [[nodiscard]] std::vector<double> predicted_columns(const at::Tensor& q_TD,
                                                      const RowSample& sample) const {
    const at::Tensor mean_q_1D = q_TD.narrow(0, sample.first - queries_.prefix(), sample.rows)
                                     .mean({0}, /*keepdim=*/true, accumulate_type(q_TD));
    return as_doubles(at::softmax(scores(mean_q_1D), 1));
  }

  void add_predicted(BlockMask& mask, const at::Tensor& q_TD) const {
    at::Tensor scores_BB = scores(block_means(q_TD, queries_.prefix()));
    const auto blocks = static_cast<std::int64_t>(mask.front().size());
    for (std::int64_t b = 0; b < queries_.count(); ++b)
      scores_BB[b]
          .narrow(0, queries_.number(b) + 1, blocks - queries_.number(b) - 1)
          .fill_(-std::numeric_limits<double>::infinity());
    const std::vector<double> p = as_doubles(at::softmax(scores_BB, 1));
    for (const std::int64_t entry : fewest_that_reach(p, method_.gamma))
      mask[static_cast<std::size_t>(entry / blocks)][static_cast<std::size_t>(entry % blocks)] = 1;
  }

  FlexPrefill method_;
  const at::Tensor& k_LD_;
  const QueryBlocks& queries_;
  at::Tensor mean_k_BD_;
};

}  // namespace

Choose chooser(const FlexPrefill& method, const at::Tensor& k_LD, const QueryBlocks& queries) {
  return [flex = Flex(method, k_LD, queries)](const at::Tensor& q_TD, std::int64_t thinning) {
    return flex.choose(q_TD, thinning);
  };
}

ChoosingWork choosing_work(const FlexPrefill&, const QueryBlocks& queries, std::int64_t thinning,
                           std::int64_t sharing) {
  const RowSample sample = last_rows(queries, thinning);
  const auto keys = static_cast<double>(queries.keys());
  const double pairs = static_cast<double>(sample.rows) * keys;
  return {pairs, pairs, keys / static_cast<double>(sharing)};
}

}  // namespace slimpack
