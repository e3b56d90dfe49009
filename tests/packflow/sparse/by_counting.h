// Sparse attention by counting: pair by pair, in fp64. The oracle of the room's tests; it knows of
// kept keys what their header says, and shares no code with what computes on them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "slimpack/packflow/sparse/kept_keys.h"
#include "tests/packflow/kernels/attention_by_definition.h"

namespace slimpack::testing {

/// Queries prefix to prefix + T − 1 of a sequence, and all of its keys and values.
struct Slice {
  std::int64_t prefix = 0;
  at::Tensor q, k, v;  ///< [T, N, D], [prefix + T, G, D], fp64

  [[nodiscard]] std::int64_t queries() const { return q.size(0); }
  [[nodiscard]] std::int64_t keys() const { return k.size(0); }
  [[nodiscard]] QueryBlocks blocks() const { return {Tokens(prefix), Tokens(queries())}; }
};

/// Scores have a standard deviation of `spread`: the larger it is, the fewer keys matter.
inline Slice random_slice(Rng& rng, std::int64_t prefix, std::int64_t queries,
                          std::int64_t kv_heads, std::int64_t sharing, std::int64_t dim,
                          double spread = 2) {
  const std::int64_t keys = prefix + queries;
  return {prefix, random_tensor(rng, {queries, kv_heads * sharing, dim}).mul_(spread),
          random_tensor(rng, {keys, kv_heads, dim}), random_tensor(rng, {keys, kv_heads, dim})};
}

/// A matrix of doubles: rows are the slice's queries, columns all keys.
using Matrix = std::vector<std::vector<double>>;

/// exp(q·k/√D) of one head where the query may see the key, else 0.
inline Matrix exponentials(const Slice& s, std::int64_t head) {
  const auto q = s.q.accessor<double, 3>(), k = s.k.accessor<double, 3>();
  const std::int64_t group = head / (s.q.size(1) / s.k.size(1)), dim = s.q.size(2);
  Matrix e(static_cast<std::size_t>(s.queries()),
           std::vector<double>(static_cast<std::size_t>(s.keys())));
  for (std::int64_t t = 0; t < s.queries(); ++t)
    for (std::int64_t j = 0; j <= s.prefix + t; ++j) {
      double product = 0;
      for (std::int64_t d = 0; d < dim; ++d) product += q[t][head][d] * k[j][group][d];
      e[static_cast<std::size_t>(t)][static_cast<std::size_t>(j)] =
          std::exp(product / std::sqrt(static_cast<double>(dim)));
    }
  return e;
}

/// Softmax of one head.
inline Matrix weights(const Slice& s, std::int64_t head) {
  Matrix p = exponentials(s, head);
  for (std::vector<double>& row : p) {
    double sum = 0;
    for (const double x : row) sum += x;
    for (double& x : row) x /= sum;
  }
  return p;
}

/// Whether query t of the slice sees key j: in its own block, in a run, or among the lowest
/// columns.
inline bool sees(const KeptKeys& kept, const QueryBlocks& slice, std::int64_t t, std::int64_t j) {
  const QueryBlocks queries = slice.in_blocks_of(kept.block);
  const std::int64_t position = queries.prefix() + t;
  if (j > position) return false;
  std::int64_t b = 0;
  while (queries.queries(b).end <= position) ++b;
  if (j >= queries.queries(b).begin) return true;
  const BlockKeys& block = kept.blocks[static_cast<std::size_t>(b)];
  for (const KeyRun& run : block.runs)
    if (j >= run.begin && j < run.end) return true;
  for (std::int64_t c = 0; c < block.columns; ++c)
    if (kept.columns[static_cast<std::size_t>(c)] == j) return true;
  return false;
}

struct Outputs {
  at::Tensor out, lse;
};

/// Attention of all heads; query t of head n sees key j if seen(n, t, j), itself among them.
inline Outputs masked_attention(
    const Slice& s, const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& seen) {
  Outputs r{at::zeros_like(s.q), at::zeros({s.queries(), s.q.size(1)}, at::kDouble)};
  const auto v = s.v.accessor<double, 3>();
  auto out = r.out.accessor<double, 3>();
  auto lse = r.lse.accessor<double, 2>();
  for (std::int64_t n = 0; n < s.q.size(1); ++n) {
    const Matrix e = exponentials(s, n);
    const std::int64_t group = n / (s.q.size(1) / s.k.size(1));
    for (std::int64_t t = 0; t < s.queries(); ++t) {
      const std::vector<double>& row = e[static_cast<std::size_t>(t)];
      double sum = 0;
      for (std::int64_t j = 0; j <= s.prefix + t; ++j)
        if (seen(n, t, j)) sum += row[static_cast<std::size_t>(j)];
      lse[t][n] = std::log(sum);
      for (std::int64_t j = 0; j <= s.prefix + t; ++j)
        if (seen(n, t, j))
          for (std::int64_t d = 0; d < s.q.size(2); ++d)
            out[t][n][d] += row[static_cast<std::size_t>(j)] / sum * v[j][group][d];
    }
  }
  return r;
}

/// The fewest entries that reach `target`, taken one by one, the largest that is left each time.
inline std::vector<bool> taken_until(const std::vector<double>& values, double target) {
  std::vector<bool> taken(values.size());
  double reached = 0;
  for (std::size_t step = 0; step < values.size() && reached < target; ++step) {
    std::size_t best = values.size();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!taken[i] && (best == values.size() || values[i] > values[best])) best = i;
    taken[best] = true;
    reached += values[best];
  }
  return taken;
}

inline double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace slimpack::testing
