#include "slimpack/packflow/attention.h"

#include <utility>

namespace slimpack {
namespace {

KeysValues rows_of(const KeysValues& kv, std::int64_t begin, std::int64_t rows) {
  return {kv.k.narrow(0, begin, rows), kv.v.narrow(0, begin, rows)};
}

}  // namespace

AttentionResult attention_forward(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix) {
  const std::int64_t before = prefix.count();
  AttentionResult block = attend(q_TND, rows_of(kv, before, q_TND.size(0)), Mask::kCausal);
  if (before == 0) return block;
  return merged(attend(q_TND, rows_of(kv, 0, before), Mask::kNone), block);
}

AttentionGradients attention_backward(const at::Tensor& dout_TND, const at::Tensor& q_TND,
                                      const KeysValues& kv, const AttentionResult& forward,
                                      Tokens prefix, KeysValues dkv_prefix) {
  const std::int64_t before = prefix.count();
  const QueryRows rows{dout_TND, q_TND, forward.out_TND, forward.lse_TN};
  AttentionGradients result =
      attend_backward(rows, rows_of(kv, before, q_TND.size(0)), Mask::kCausal);
  if (before == 0) return result;
  const AttentionGradients on_prefix = attend_backward(rows, rows_of(kv, 0, before), Mask::kNone);
  result.dq_TND.add_(on_prefix.dq_TND);
  dkv_prefix.k.narrow(0, 0, before).add_(on_prefix.dk_TGD);
  dkv_prefix.v.narrow(0, 0, before).add_(on_prefix.dv_TGD);
  return result;
}

}  // namespace slimpack
