#include "slimpack/packflow/kernels/flash_kernel.h"

#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Calls visit(first query, queries, causal) for what the kernel can mask, which sees all keys.
template <class Visit>
void for_each_block(std::int64_t queries, std::int64_t keys, Mask mask, Visit visit) {
  if (mask.kind != Mask::kCausal) {
    visit(0, queries, mask.kind == Mask::kCausalEnd);
    return;
  }
  // Aligned at the beginning: as many queries as keys make a square, the others see all.
  SLIMPACK_CHECK(keys <= queries);
  visit(0, keys, true);
  if (queries > keys) visit(keys, queries - keys, false);
}

}  // namespace

AttentionResult FlashKernel::attend(const at::Tensor& q_TND, const KeysValues& kv,
                                    Mask mask) const {
  std::vector<at::Tensor> out, lse;
  for_each_block(q_TND.size(0), kv.k.size(0), mask,
                 [&](std::int64_t row, std::int64_t rows, bool causal) {
                   AttentionResult block =
                       forward({nullptr, causal, mask.window}, q_TND.narrow(0, row, rows), kv);
                   out.push_back(std::move(block.out_TND));
                   lse.push_back(std::move(block.lse_TN));
                 });
  return {joined_rows(out), joined_rows(lse)};
}

AttentionGradients FlashKernel::attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                Mask mask) const {
  AttentionGradients sum;
  std::vector<at::Tensor> dq;
  for_each_block(rows.q_TND.size(0), kv.k.size(0), mask,
                 [&](std::int64_t row, std::int64_t count, bool causal) {
                   const AttentionGradients block =
                       backward({nullptr, causal, mask.window}, rows.narrow(row, count), kv);
                   dq.push_back(block.dq_TND);
                   if (sum.dk_TGD.defined())
                     block.add_to({sum.dk_TGD, sum.dv_TGD});
                   else
                     sum = block;
                 });
  sum.dq_TND = joined_rows(dq);
  return sum;
}

at::Tensor lse_by_head(const at::Tensor& lse_TN) {
  return lse_TN.transpose(0, 1).contiguous();
}

}  // namespace slimpack
