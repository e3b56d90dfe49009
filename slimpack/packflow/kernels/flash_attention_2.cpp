#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <optional>

#include "slimpack/packflow/device/optional_operator.h"
#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {
namespace {

class FlashAttention2 final : public FlashKernel {
 public:
  [[nodiscard]] std::int32_t release() const override { return 2; }
  [[nodiscard]] bool supports(const at::Tensor& like, const AttentionHeads& heads) const override;

 private:
  [[nodiscard]] AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                        const KeysValues& kv) const override;
  [[nodiscard]] AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                            const KeysValues& kv) const override;
};

/// Keys before a query's own, and after it, that it sees; none: the causal flag says all.
struct Reach {
  std::optional<std::int64_t> before, after;

  explicit Reach(const FlashCall& call) {
    if (!call.windowed()) return;
    before = call.keys_before_own();
    after = 0;
  }
};

bool FlashAttention2::supports(const at::Tensor& like, const AttentionHeads& heads) const {
  static const OptionalOperator flash("_flash_attention_forward");
  return like.scalar_type() == at::kBFloat16 && heads.dim % 8 == 0 && heads.dim <= 256 &&
         flash.runs_on(like);
}

AttentionResult FlashAttention2::forward(const FlashCall& call, const at::Tensor& q_TND,
                                         const KeysValues& kv) const {
  std::optional<at::Tensor> query_bounds, key_bounds;
  if (call.sequences != nullptr) {
    query_bounds = call.sequences->query_ends_B1;
    key_bounds = call.sequences->key_ends_B1;
  }
  const Reach reach(call);
  const auto [out, lse, rng_state, unused, mask] = at::_flash_attention_forward(
      call.batched(q_TND), call.batched(kv.k), call.batched(kv.v), query_bounds, key_bounds,
      call.longest_queries(q_TND), call.longest_keys(kv), /*dropout_p=*/0.0, call.causal,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt, reach.before, reach.after);
  return {call.unbatched(out), call.unbatched(lse).transpose(0, 1)};
}

AttentionGradients FlashAttention2::backward(const FlashCall& call, const QueryRows& rows,
                                             const KeysValues& kv) const {
  at::Tensor query_bounds, key_bounds;
  if (call.sequences != nullptr) {
    query_bounds = call.sequences->query_ends_B1;
    key_bounds = call.sequences->key_ends_B1;
  }
  // The last two tensors belong to dropout, which is off.
  const auto options = rows.q_TND.options();
  const Reach reach(call);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      call.batched(rows.dout_TND), call.batched(rows.q_TND), call.batched(kv.k), call.batched(kv.v),
      call.batched(rows.out_TND), call.batched(lse_by_head(rows.lse_TN)), query_bounds, key_bounds,
      call.longest_queries(rows.q_TND), call.longest_keys(kv),
      /*dropout_p=*/0.0, call.causal, at::empty({2}, options.dtype(at::kUInt64)),
      at::empty({0}, options), /*scale=*/std::nullopt, reach.before, reach.after);
  return {call.unbatched(dq), call.unbatched(dk), call.unbatched(dv)};
}

}  // namespace

std::unique_ptr<const FlashKernel> flash_attention_2() {
  return std::make_unique<FlashAttention2>();
}

}  // namespace slimpack
