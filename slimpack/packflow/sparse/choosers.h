// How each method chooses the keys of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "slimpack/packflow/sparse/kept_keys.h"
#include "slimpack/packflow/sparse/methods.h"

namespace slimpack {

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
