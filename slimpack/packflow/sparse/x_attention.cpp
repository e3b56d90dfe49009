// XAttention:
//   1. rows of `stride` queries end to end, in reverse order, and of as many keys end to end: their
//      product is the sum along antidiagonals of scores
//   2. softmax of these sums over `stride`, summed by blocks of queries and of keys
//   3. per block of queries its own, the first, and the fewest others that reach the threshold
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "slimpack/packflow/sparse/methods.h"
#include "slimpack/packflow/sparse/sampled_rows.h"

namespace slimpack {
namespace {

/// Blocks of queries whose scores are held at a time.
constexpr std::int64_t kBlocksAtOnce = 8;

/// Rows of x end to end, `stride` at a time, from a multiple of it on; zeros stand for what is
/// missing. `first` is the position of the first row.
at::Tensor strided_rows(const at::Tensor& x_TD, std::int64_t first, std::int64_t stride) {
  const std::int64_t before = first % stride;
  const std::int64_t after = (stride - (before + x_TD.size(0)) % stride) % stride;
  return at::constant_pad_nd(x_TD, {0, 0, before, after}, 0).unflatten(0, {-1, stride});
}

class Antidiagonals {
 public:
  Antidiagonals(const XAttention& method, const at::Tensor& k_LD, const QueryBlocks& queries)
      : method_(method),
        queries_(queries),
        scale_(1.0 /
               (std::sqrt(static_cast<double>(k_LD.size(1))) * static_cast<double>(method.stride))),
        k_LD_(strided_rows(k_LD, 0, method.stride).flatten(1, 2)) {}

  /// Looks at every thinning-th block of queries. The blocks before it see the same keys as it
  /// does.
  [[nodiscard]] KeptKeys choose(const at::Tensor& q_TD, std::int64_t thinning) const {
    const std::int64_t at_once = thinning == 1 ? kBlocksAtOnce : 1;
    BlockMask mask = empty_mask(queries_);
    for (std::int64_t end = queries_.count(); end > 0; end -= std::max(at_once, thinning)) {
      const std::int64_t begin = std::max<std::int64_t>(0, end - at_once);
      add_seen(mask, q_TD, begin, end);
      for (std::int64_t b = std::max<std::int64_t>(0, end - thinning); b < begin; ++b)
        mask[static_cast<std::size_t>(b)] = mask[static_cast<std::size_t>(begin)];
    }
    return kept_blocks(mask, queries_);
  }

 private:
  /// Rows of `stride` queries that begin in these blocks, counted in the sequence.
  [[nodiscard]] KeyRun rows_of(std::int64_t begin, std::int64_t end) const {
    return {queries_.queries(begin).begin / method_.stride,
            (queries_.queries(end - 1).end - 1) / method_.stride + 1};
  }

  void add_seen(BlockMask& mask, const at::Tensor& q_TD, std::int64_t begin,
                std::int64_t end) const {
    const KeyRun all = rows_of(begin, end);
    const std::int64_t first = queries_.queries(begin).begin;
    const at::Tensor own_TD =
        q_TD.slice(0, first - queries_.prefix(), queries_.queries(end - 1).end - queries_.prefix());
    const at::Tensor q_RD = strided_rows(own_TD, first, method_.stride).flip({1}).flatten(1, 2);
    const at::Tensor p_RL = causal_softmax(q_RD, k_LD_, scale_, {all.begin, 1, all.keys()});
    for (std::int64_t b = begin; b < end; ++b) {
      const KeyRun own = rows_of(b, b + 1);
      const at::Tensor part_RL =
          p_RL.narrow(0, own.begin - all.begin, own.keys()).narrow(1, 0, own.end);
      for (const std::int64_t key : seen(block_weights(part_RL)))
        mask[static_cast<std::size_t>(b)][static_cast<std::size_t>(key)] = 1;
    }
  }

  /// The weight of each block of keys.
  [[nodiscard]] std::vector<double> block_weights(const at::Tensor& p_RL) const {
    const std::int64_t in_block = kSparseBlock / method_.stride;
    const std::int64_t missing = (in_block - p_RL.size(1) % in_block) % in_block;
    return as_doubles(
        at::constant_pad_nd(p_RL.sum({0}), {0, missing}, 0).view({-1, in_block}).sum({1}));
  }

  /// The blocks besides a block of queries' own, which is the last.
  [[nodiscard]] std::vector<std::int64_t> seen(std::vector<double> weights) const {
    double total = 0;
    for (const double weight : weights) total += weight;
    const double own = weights.back();
    weights.pop_back();
    if (weights.empty()) return {};
    if (method_.threshold == 1) return largest_entries(weights, std::ssize(weights));
    const double first = weights.front();
    weights.front() = 0;
    std::vector<std::int64_t> blocks =
        fewest_that_sum_to(weights, method_.threshold * total - own - first);
    blocks.push_back(0);
    return blocks;
  }

  XAttention method_;
  const QueryBlocks& queries_;
  double scale_;
  at::Tensor k_LD_;
};

}  // namespace

Choose chooser(const XAttention& method, const at::Tensor& k_LD, const QueryBlocks& queries) {
  return
      [heads = Antidiagonals(method, k_LD, queries)](
          const at::Tensor& q_TD, std::int64_t thinning) { return heads.choose(q_TD, thinning); };
}

ChoosingWork choosing_work(const XAttention& method, const QueryBlocks& queries,
                           std::int64_t thinning, std::int64_t sharing) {
  // A product of rows `stride` times as long, of 1/stride² of the pairs.
  const auto stride = static_cast<double>(method.stride);
  double pairs = 0, rows = static_cast<double>(queries.keys()) / static_cast<double>(sharing);
  for (std::int64_t b = queries.count() - 1; b >= 0; b -= thinning) {
    const KeyRun own = queries.queries(b);
    pairs += static_cast<double>(own.keys()) * static_cast<double>(own.end);
    rows += static_cast<double>(own.keys());
  }
  return {pairs / stride, pairs / stride / stride, rows};
}

}  // namespace slimpack
