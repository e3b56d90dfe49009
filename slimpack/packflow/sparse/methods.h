// Methods of sparse prefill attention: how the keys of a head are chosen, with what constants.
//
// Each chooses anew for every slice and query head, from the slice's queries and all keys before
// them. docs/sparse-attention.md says where a constant comes from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <variant>

#include "slimpack/packflow/sparse/kept_keys.h"

namespace slimpack {

/// SampleAttention as first published (arXiv 2406.15486, versions 1 and 2): some rows' softmax,
/// summed by column; the fewest columns that reach `alpha` of the sum; a window before each query.
struct SampledColumns {
  double rows = 0.05;    ///< share of the slice's queries that are looked at, at equal distances
  double alpha = 0.95;   ///< share of their attention to be kept
  double window = 0.08;  ///< keys of the window, as a share of all keys so far
  std::int64_t dense_rows = 128;  ///< the slice's last queries see everything
  /// Whether what the window keeps counts towards alpha, so that columns make up for the rest only.
  /// As published, columns alone reach alpha, and heads that look nearby need nearly all of them.
  bool beyond_window = false;

  bool operator==(const SampledColumns&) const = default;
};

/// SampleAttention as in MLSys 2025 (version 3): the last rows of equal segments, summed by column
/// and by distance (slash) in blocks of 128; the fewest of each that reach their thresholds.
struct SampledBlocks {
  std::int64_t segment = 1024;  ///< queries of a segment, at most
  std::int64_t rows = 32;       ///< the last ones of each are looked at
  double alpha_columns = 0.95;
  double alpha_slashes = 0.95;

  bool operator==(const SampledBlocks&) const = default;
};

/// FlexPrefill (arXiv 2502.20766): columns and slashes that reach `gamma` in the last 128 queries;
/// where pooled queries and keys predict the columns well (√JSD < tau), blocks that reach gamma by
/// this prediction.
struct FlexPrefill {
  double gamma = 0.9;
  double tau = 0.1;
  std::int64_t min_keys = 512;  ///< columns, and distances, that are kept at least

  bool operator==(const FlexPrefill&) const = default;
};

/// XAttention (arXiv 2503.16428): each block of queries sees the fewest blocks of keys that reach
/// `threshold`, as every `stride`-th entry along antidiagonals predicts.
struct XAttention {
  std::int64_t stride = 8;
  double threshold = 0.9;

  bool operator==(const XAttention&) const = default;
};

using SparseMethod = std::variant<SampledColumns, SampledBlocks, FlexPrefill, XAttention>;

/// Throws InvalidInput where a constant is out of its range.
void check_sparse_method(const SparseMethod& method);

/// The work of choosing one head's keys.
struct ChoosingWork {
  double products = 0;     ///< query-key pairs whose product is computed
  double weights = 0;      ///< pairs whose softmax is computed
  double copied_rows = 0;  ///< queries and keys that are copied or averaged
};

/// Chooses a query head's keys from its queries. With a thinning of n it looks at about 1/n of the
/// rows that the method looks at, for a first impression; a choice has 1.
using Choose = std::function<KeptKeys(const at::Tensor& q_TD, std::int64_t thinning)>;

/// For all query heads that share these keys, which are computed on once.
/// REQUIRES: check_sparse_method; `k_LD` are the keys up to the end of `queries`, contiguous; both
/// outlive the result.
[[nodiscard]] Choose chooser(const SampledColumns& method, const at::Tensor& k_LD,
                             const QueryBlocks& queries);
[[nodiscard]] Choose chooser(const SampledBlocks& method, const at::Tensor& k_LD,
                             const QueryBlocks& queries);
[[nodiscard]] Choose chooser(const FlexPrefill& method, const at::Tensor& k_LD,
                             const QueryBlocks& queries);
[[nodiscard]] Choose chooser(const XAttention& method, const at::Tensor& k_LD,
                             const QueryBlocks& queries);

/// The work for a head that shares its keys with `sharing` − 1 others.
[[nodiscard]] ChoosingWork choosing_work(const SampledColumns& method, const QueryBlocks& queries,
                                         std::int64_t thinning, std::int64_t sharing);
[[nodiscard]] ChoosingWork choosing_work(const SampledBlocks& method, const QueryBlocks& queries,
                                         std::int64_t thinning, std::int64_t sharing);
[[nodiscard]] ChoosingWork choosing_work(const FlexPrefill& method, const QueryBlocks& queries,
                                         std::int64_t thinning, std::int64_t sharing);
[[nodiscard]] ChoosingWork choosing_work(const XAttention& method, const QueryBlocks& queries,
                                         std::int64_t thinning, std::int64_t sharing);

}  // namespace slimpack
