// Sparse attention of one slice of a prompt: in place of attention_forward, where the softmax's
// mass lies on few keys.
//
//   1. Where lengths alone rule out a gain, the slice is dense.
//   2. Per query head a first impression, from an eighth of the rows that the method looks at or
//      fewer: it costs about 1% of dense attention. A head for which the rest does not pay by
//      this impression is dense.
//   3. The method chooses the head's keys for blocks of 128 queries. Blocks are joined where that
//   is
//      faster. The head is dense where this saves less than a tenth of the time.
//   4. All sparse heads are computed together, dense ones by attention_forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/sparse/methods.h"
#include "slimpack/packflow/sparse/sparse_costs.h"

namespace slimpack {

struct SparseAttention {
  SparseMethod method;
  /// The costs that decide between sparse and dense attention: measured_sparse_costs(), once for a
  /// model. Without costs every head is sparse, in blocks of 128.
  std::optional<SparseCosts> costs;
  /// Query heads whose kept share is measured, which costs dense attention of each.
  std::vector<std::int64_t> measured_heads;
};

/// How much of the softmax's mass the computed keys hold, by the slice's queries.
struct KeptShare {
  double least = 1;  ///< of any query: the cumulative residual attention (CRA)
  double mean = 1;
};

struct SparseHeadReport {
  bool dense = false;
  double pairs = 0;  ///< query-key pairs that were computed
  std::optional<KeptShare> kept;
};

struct SparseReport {
  double dense_pairs = 0;  ///< of dense attention, by head
  std::vector<SparseHeadReport> heads;

  /// Computed pairs over those of dense attention.
  [[nodiscard]] double density() const;
};

/// Output and log-sum-exp of the slice's T queries over the keys that were chosen; `kv` are those
/// of the first `prefix + T` tokens; where a head's lie end to end, they are not copied. `report`
/// may be null. Slices of some thousand tokens do best: every slice chooses anew. Throws
/// InvalidInput (check_sparse_method). REQUIRES: as attention_forward; measured_heads are heads of
/// q.
[[nodiscard]] AttentionResult sparse_attention_forward(const at::Tensor& q_TND,
                                                       const KeysValues& kv, Tokens prefix,
                                                       const SparseAttention& choice,
                                                       SparseReport* report);

}  // namespace slimpack
