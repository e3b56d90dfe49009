#include "slimpack/packflow/layer/context_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/attention.h"

namespace slimpack {
namespace {

/// The result of queries that see no key.
AttentionResult nothing_seen(const at::Tensor& q_TND) {
  return {at::zeros_like(q_TND),
          at::full({q_TND.size(0), q_TND.size(1)}, -std::numeric_limits<double>::infinity(),
                   q_TND.options().dtype(accumulate_type(q_TND)))};
}

AttentionResult windowed_result(const SliceBlock::Windowed& part, const at::Tensor& q_TND,
                                const KeysValues& kv) {
  AttentionResult result = nothing_seen(q_TND);
  if (part.empty()) return result;
  const AttentionResult seen =
      attention_forward(q_TND.narrow(0, part.begin, part.rows), kv.narrow(0, part.keys()),
                        Tokens(part.prefix), part.window);
  result.out_TND.narrow(0, part.begin, part.rows).copy_(seen.out_TND);
  result.lse_TN.narrow(0, part.begin, part.rows).copy_(seen.lse_TN);
  return result;
}

/// Does what add_slice does where the layer has a window.
at::Tensor add_windowed(const SliceBlock& slice, const QueryRows& q, const KeysValues& kv,
                        const SliceKeyGradients& keys) {
  at::Tensor dq_TND = at::zeros_like(q.q_TND);
  const SliceBlock::Windowed part = slice.windowed();
  if (part.empty()) return dq_TND;
  const QueryRows seeing = q.narrow(part.begin, part.rows);
  const AttentionGradients own = attention_backward(
      seeing.dout_TND, seeing.q_TND, kv.narrow(0, part.keys()), {seeing.out_TND, seeing.lse_TN},
      Tokens(part.prefix), keys.sequence, part.window);
  dq_TND.narrow(0, part.begin, part.rows).copy_(own.dq_TND);
  // The first key of these may be the last one before the slice.
  const std::int64_t earlier = slice.before() - part.prefix;
  if (earlier > 0)
    AttentionGradients{{}, own.dk_TGD.narrow(0, 0, earlier), own.dv_TGD.narrow(0, 0, earlier)}
        .add_to(keys.sequence.narrow(part.prefix, earlier));
  const std::int64_t rest = part.rows - earlier;
  AttentionGradients{{}, own.dk_TGD.narrow(0, earlier, rest), own.dv_TGD.narrow(0, earlier, rest)}
      .add_to(keys.own);
  return dq_TND;
}

}  // namespace

AttentionResult partial_result(const SliceBlock& slice, const at::Tensor& q_TND,
                               const KeysValues& kv) {
  if (slice.has_window()) return windowed_result(slice.windowed(), q_TND, kv);
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
  if (slice.has_window()) return add_windowed(slice, q, kv, keys);
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
