// Context attention: attention of a merged MicroPack by all replicas that run it together.
//
// Each replica holds every g-th token of a sequence (plan/row_share.h): its queries travel to the
// others, keys and values stay, partial results come back and are merged by their log-sum-exp; so
// what is sent does not grow with the prefix. Queries of one other replica visit at a time, so what
// is held does not grow with g. Queries of member j against keys of member r are
// causal again, row by row, when j's first position of the slice is no earlier than r's, and
// causal without the diagonal otherwise (striped attention, arXiv:2311.09431): no work is masked
// away.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// A merged MicroPack in one layer. References; all members of the group make the same calls.
struct MergedPack {
  const MicroPack& pack;
  Collective& group;
  KvStore& kv;
  std::size_t layer;
};

/// Output and log-sum-exp of the own queries, those of all slices in their order. Of T tokens of
/// the pack each member sends (g − 1)·T/g queries, and as many outputs and log-sum-exps.
[[nodiscard]] AttentionResult context_attention_forward(const MergedPack& merged,
                                                        const at::Tensor& q_TND);

/// Gradients of the own queries, keys and values: as of the whole sequence. Adds to the store's
/// gradients of the slices' prefixes; what later slices left there for the slices is included.
/// `rows` are the own ones. The result is in the accumulate type.
[[nodiscard]] AttentionGradients context_attention_backward(const MergedPack& merged,
                                                            const QueryRows& rows);

}  // namespace slimpack
