// Methods of sparse prefill attention: how the keys of a head are chosen, with what constants.
//
// Each chooses anew for every slice and query head, from the slice's queries and all keys before
// them. docs/sparse-attention.md says where a constant comes from.
#pragma once

#include <cstdint>
#include <variant>

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

}  // namespace slimpack
