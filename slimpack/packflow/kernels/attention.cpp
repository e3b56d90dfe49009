#include "slimpack/packflow/kernels/attention.h"

#include <utility>

namespace slimpack {
namespace {

/// Gradients of all keys that the slice sees, divided into its prefix's and its own.
AttentionGradients divided(const AttentionGradients& all, std::int64_t before,
                           const KeysValues& dkv_prefix) {
  const std::int64_t own = all.dk_TGD.size(0) - before;
  AttentionGradients{{}, all.dk_TGD.narrow(0, 0, before), all.dv_TGD.narrow(0, 0, before)}.add_to(
      dkv_prefix);
  return {all.dq_TND, all.dk_TGD.narrow(0, before, own), all.dv_TGD.narrow(0, before, own)};
}

}  // namespace

AttentionResult attention_forward(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix) {
  const std::int64_t before = prefix.count();
  if (before > 0 && has_causal_end(q_TND)) return attend(q_TND, kv, Mask::kCausalEnd);
  AttentionResult block = attend(q_TND, kv.narrow(before, q_TND.size(0)), Mask::kCausal);
  if (before == 0) return block;
  return merged(attend(q_TND, kv.narrow(0, before), Mask::kNone), block);
}

AttentionGradients attention_backward(const at::Tensor& dout_TND, const at::Tensor& q_TND,
                                      const KeysValues& kv, const AttentionResult& forward,
                                      Tokens prefix, KeysValues dkv_prefix) {
  const std::int64_t before = prefix.count();
  const QueryRows rows{dout_TND, q_TND, forward.out_TND, forward.lse_TN};
  if (before > 0 && has_causal_end(q_TND))
    return divided(attend_backward(rows, kv, Mask::kCausalEnd), before, dkv_prefix);
  AttentionGradients result =
      attend_backward(rows, kv.narrow(before, q_TND.size(0)), Mask::kCausal);
  if (before == 0) return result;
  const AttentionGradients on_prefix = attend_backward(rows, kv.narrow(0, before), Mask::kNone);
  result.dq_TND.add_(on_prefix.dq_TND);
  on_prefix.add_to(dkv_prefix);
  return result;
}

}  // namespace slimpack
