#include "slimpack/packflow/kernels/attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/cost/attention_rules.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Divides the gradients of keys, of which the first `before` are of the prefix's end.
AttentionGradients divided(AttentionGradients all, std::int64_t before,
                           const KeysValues& dkv_prefix) {
  if (before == 0) return all;
  const std::int64_t own = all.dk_TGD.size(0) - before;
  AttentionGradients{{}, all.dk_TGD.narrow(0, 0, before), all.dv_TGD.narrow(0, 0, before)}.add_to(
      dkv_prefix);
  return {all.dq_TND, all.dk_TGD.narrow(0, before, own), all.dv_TGD.narrow(0, before, own)};
}

AttentionResult causal_forward(const at::Tensor& q_TND, const KeysValues& kv, std::int64_t before) {
  if (before > 0 && has_causal_end(q_TND)) return attend(q_TND, kv, Mask::kCausalEnd);
  AttentionResult block = attend(q_TND, kv.narrow(before, q_TND.size(0)), Mask::kCausal);
  if (before == 0) return block;
  return merged(attend(q_TND, kv.narrow(0, before), Mask::kNone), block);
}

AttentionGradients causal_backward(const QueryRows& rows, const KeysValues& kv, std::int64_t before,
                                   const KeysValues& dkv_prefix) {
  if (before > 0 && has_causal_end(rows.q_TND))
    return divided(attend_backward(rows, kv, Mask::kCausalEnd), before, dkv_prefix);
  AttentionGradients result =
      attend_backward(rows, kv.narrow(before, rows.q_TND.size(0)), Mask::kCausal);
  if (before == 0) return result;
  const AttentionGradients on_prefix = attend_backward(rows, kv.narrow(0, before), Mask::kNone);
  result.dq_TND.add_(on_prefix.dq_TND);
  on_prefix.add_to(dkv_prefix);
  return result;
}

/// A slice without the keys that the window hides from all of its queries.
struct WindowedSlice {
  Mask mask;
  std::int64_t hidden;  ///< keys, the first of the sequence
  std::int64_t before;  ///< keys of the prefix that some query sees
  KeysValues kv;        ///< that some query sees

  WindowedSlice(const KeysValues& all, std::int64_t prefix, std::int64_t window)
      : mask(Mask::kCausalEnd, window),
        hidden(mask.first_key(prefix)),
        before(prefix - hidden),
        kv(all.narrow(hidden, all.k.size(0) - hidden)) {}

  [[nodiscard]] std::vector<WindowBlock> blocks(const at::Tensor& q_TND) const {
    return window_blocks(before, q_TND.size(0), mask.window);
  }
  [[nodiscard]] KeysValues keys_of(const WindowBlock& block) const {
    return kv.narrow(block.first_key, block.keys);
  }
};

AttentionResult windowed_forward(const at::Tensor& q_TND, const WindowedSlice& slice) {
  if (skips_hidden_keys(q_TND, slice.kv)) return attend(q_TND, slice.kv, slice.mask);
  AttentionResult all{
      at::empty(q_TND.sizes(), q_TND.options()),
      at::empty({q_TND.size(0), q_TND.size(1)}, q_TND.options().dtype(accumulate_type(q_TND)))};
  for (const WindowBlock& block : slice.blocks(q_TND)) {
    const at::Tensor q = q_TND.narrow(0, block.row, block.rows);
    const KeysValues kv = slice.keys_of(block);
    const AttentionResult result =
        block.masked ? attend(q, kv, slice.mask) : causal_forward(q, kv, slice.before);
    all.out_TND.narrow(0, block.row, block.rows).copy_(result.out_TND);
    all.lse_TN.narrow(0, block.row, block.rows).copy_(result.lse_TN);
  }
  return all;
}

/// `dkv_before`: of the keys of the prefix that some query sees.
AttentionGradients windowed_backward(const QueryRows& rows, const WindowedSlice& slice,
                                     const KeysValues& dkv_before) {
  if (skips_hidden_keys(rows.q_TND, slice.kv))
    return divided(attend_backward(rows, slice.kv, slice.mask), slice.before, dkv_before);
  const at::Tensor& k = slice.kv.k;
  const auto sums = [&] {
    return at::zeros({rows.q_TND.size(0), k.size(1), k.size(2)},
                     k.options().dtype(accumulate_type(k)));
  };
  const KeysValues own{sums(), sums()};
  const at::Tensor dq_TND = at::empty(rows.q_TND.sizes(), rows.q_TND.options());
  for (const WindowBlock& block : slice.blocks(rows.q_TND)) {
    const QueryRows of_block = rows.narrow(block.row, block.rows);
    const KeysValues kv = slice.keys_of(block);
    // The block's keys of the prefix come first.
    const std::int64_t before = std::max<std::int64_t>(0, slice.before - block.first_key);
    const std::int64_t of_prefix = std::min(before, block.keys);
    const KeysValues dkv =
        of_prefix > 0 ? dkv_before.narrow(block.first_key, of_prefix) : KeysValues();
    const AttentionGradients result =
        block.masked ? divided(attend_backward(of_block, kv, slice.mask), of_prefix, dkv)
                     : causal_backward(of_block, kv, of_prefix, dkv);
    const std::int64_t first_own = block.first_key + of_prefix - slice.before;
    result.add_to(own.narrow(first_own, own.k.size(0) - first_own));
    dq_TND.narrow(0, block.row, block.rows).copy_(result.dq_TND);
  }
  return {dq_TND, own.k.to(k.scalar_type()), own.v.to(k.scalar_type())};
}

/// Whether a window hides any of a sequence's keys from any query.
bool hides(std::int64_t window, const KeysValues& kv) {
  return window > 0 && kv.k.size(0) > window;
}

}  // namespace

AttentionResult attention_forward(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix,
                                  std::int64_t window) {
  if (!hides(window, kv)) return causal_forward(q_TND, kv, prefix.count());
  return windowed_forward(q_TND, WindowedSlice(kv, prefix.count(), window));
}

AttentionGradients attention_backward(const at::Tensor& dout_TND, const at::Tensor& q_TND,
                                      const KeysValues& kv, const AttentionResult& forward,
                                      Tokens prefix, const KeysValues& dkv_prefix,
                                      std::int64_t window) {
  const QueryRows rows{dout_TND, q_TND, forward.out_TND, forward.lse_TN};
  if (!hides(window, kv)) return causal_backward(rows, kv, prefix.count(), dkv_prefix);
  const WindowedSlice slice(kv, prefix.count(), window);
  return windowed_backward(
      rows, slice, slice.before > 0 ? dkv_prefix.narrow(slice.hidden, slice.before) : KeysValues());
}

}  // namespace slimpack
