#include "slimpack/packflow/kernels/flash_attention.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// One block is a batch of one, several sequences are rows of a single batch: without or with it.
class Call {
 public:
  Call(std::int64_t queries, std::int64_t keys, bool causal)
      : longest_queries_(queries), longest_keys_(keys), causal_(causal) {}
  explicit Call(const JoinedSequences& sequences)
      : bounds_(sequences.ends_B1),
        longest_queries_(sequences.longest),
        longest_keys_(sequences.longest),
        causal_(true) {}

  [[nodiscard]] AttentionResult forward(const at::Tensor& q_TND, const KeysValues& kv) const {
    const std::optional<at::Tensor> bounds =
        bounds_.defined() ? std::optional(bounds_) : std::nullopt;
    const auto [out, lse, rng_state, unused, mask] = at::_flash_attention_forward(
        batched(q_TND), batched(kv.k), batched(kv.v), bounds, bounds, longest_queries_,
        longest_keys_, /*dropout_p=*/0.0, causal_, /*return_debug_mask=*/false);
    return {unbatched(out), unbatched(lse).transpose(0, 1)};
  }

  [[nodiscard]] AttentionGradients backward(const QueryRows& rows, const KeysValues& kv) const {
    // The kernel reads the log-sum-exp through its data pointer: heads first and contiguous, as
    // forward gave it. The last two tensors belong to dropout, which is off.
    const auto options = rows.q_TND.options();
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        batched(rows.dout_TND), batched(rows.q_TND), batched(kv.k), batched(kv.v),
        batched(rows.out_TND), batched(rows.lse_TN.transpose(0, 1).contiguous()), bounds_, bounds_,
        longest_queries_, longest_keys_, /*dropout_p=*/0.0, causal_,
        at::empty({2}, options.dtype(at::kUInt64)), at::empty({0}, options));
    return {unbatched(dq), unbatched(dk), unbatched(dv)};
  }

 private:
  [[nodiscard]] at::Tensor batched(const at::Tensor& x) const {
    return bounds_.defined() ? x : x.unsqueeze(0);
  }
  [[nodiscard]] at::Tensor unbatched(const at::Tensor& x) const {
    return bounds_.defined() ? x : x.squeeze(0);
  }

  at::Tensor bounds_;  ///< undefined: one block
  std::int64_t longest_queries_, longest_keys_;
  bool causal_;
};

/// Calls visit(first query, queries, causal) for what the kernel can mask, which sees all keys.
template <class Visit>
void for_each_block(std::int64_t queries, std::int64_t keys, Mask mask, Visit visit) {
  if (mask != Mask::kCausal) {
    visit(0, queries, mask == Mask::kCausalEnd);
    return;
  }
  // Aligned at the beginning: as many queries as keys make a square, the others see all.
  SLIMPACK_CHECK(keys <= queries);
  visit(0, keys, true);
  if (queries > keys) visit(keys, queries - keys, false);
}

}  // namespace

AttentionResult flash_attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  std::vector<at::Tensor> out, lse;
  const std::int64_t keys = kv.k.size(0);
  for_each_block(q_TND.size(0), keys, mask, [&](std::int64_t row, std::int64_t rows, bool causal) {
    AttentionResult block = Call(rows, keys, causal).forward(q_TND.narrow(0, row, rows), kv);
    out.push_back(std::move(block.out_TND));
    lse.push_back(std::move(block.lse_TN));
  });
  return {joined_rows(out), joined_rows(lse)};
}

AttentionGradients flash_attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  AttentionGradients sum;
  std::vector<at::Tensor> dq;
  const std::int64_t keys = kv.k.size(0);
  for_each_block(rows.q_TND.size(0), keys, mask,
                 [&](std::int64_t row, std::int64_t count, bool causal) {
                   const AttentionGradients block =
                       Call(count, keys, causal).backward(rows.narrow(row, count), kv);
                   dq.push_back(block.dq_TND);
                   if (sum.dk_TGD.defined())
                     block.add_to({sum.dk_TGD, sum.dv_TGD});
                   else
                     sum = block;
                 });
  sum.dq_TND = joined_rows(dq);
  return sum;
}

AttentionResult flash_attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                       const JoinedSequences& sequences) {
  return Call(sequences).forward(q_TND, kv);
}

AttentionGradients flash_attend_sequences_backward(const QueryRows& rows, const KeysValues& kv,
                                                   const JoinedSequences& sequences) {
  return Call(sequences).backward(rows, kv);
}

}  // namespace slimpack
