#include "slimpack/packflow/layer/member_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// The result of queries that see no key.
AttentionResult nothing_seen(const at::Tensor& q_TND) {
  return {at::zeros_like(q_TND),
          at::full({q_TND.size(0), q_TND.size(1)}, -std::numeric_limits<double>::infinity(),
                   q_TND.options().dtype(accumulate_type(q_TND)))};
}

}  // namespace

AttentionResult partial_result(const SliceBlock& slice, const at::Tensor& q_TND,
                               const KeysValues& kv) {
  const std::int64_t before = slice.before();
  AttentionResult result = before > 0 && q_TND.size(0) > 0
                               ? attend(q_TND, kv.narrow(0, before), Mask::kNone)
                               : nothing_seen(q_TND);
  const SliceBlock::Causal causal = slice.causal();
  if (causal.empty()) return result;
  const auto seeing = [&](const at::Tensor& t) { return t.narrow(0, causal.begin, causal.rows); };
  const AttentionResult block =
      attend(seeing(q_TND), kv.narrow(before, causal.keys), Mask::kCausal);
  seeing(result.lse_TN)
      .copy_(merged({seeing(result.out_TND), seeing(result.lse_TN)}, block).lse_TN);
  return result;
}

at::Tensor add_slice(const SliceBlock& slice, const QueryRows& q, const KeysValues& kv,
                     const SliceKeyGradients& keys) {
  const std::int64_t before = slice.before();
  at::Tensor dq_TND;
  if (before > 0 && q.q_TND.size(0) > 0) {
    const AttentionGradients on_prefix = attend_backward(q, kv.narrow(0, before), Mask::kNone);
    on_prefix.add_to(keys.sequence);
    dq_TND = on_prefix.dq_TND;
  } else {
    dq_TND = at::zeros_like(q.q_TND);
  }
  const SliceBlock::Causal causal = slice.causal();
  if (causal.empty()) return dq_TND;
  const AttentionGradients block = attend_backward(q.narrow(causal.begin, causal.rows),
                                                   kv.narrow(before, causal.keys), Mask::kCausal);
  dq_TND.narrow(0, causal.begin, causal.rows).add_(block.dq_TND);
  block.add_to(keys.own);
  return dq_TND;
}

}  // namespace slimpack
