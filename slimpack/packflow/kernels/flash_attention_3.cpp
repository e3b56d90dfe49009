#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {
namespace {

using Arguments = std::map<std::string, c10::IValue>;

/// The package may be imported at any time, so the operator is looked up for each call.
std::optional<c10::OperatorHandle> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchema({std::string("flash_attn_3::") + name, ""});
}

/// Calls with arguments by name; all others have their defaults, or are none. Releases differ in
/// how many they have.
torch::jit::Stack call_operator(const char* name, Arguments given) {
  const std::optional<c10::OperatorHandle> op = find_operator(name);
  SLIMPACK_CHECK(op.has_value());
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const auto it = given.find(argument.name());
    stack.push_back(it != given.end() ? std::move(it->second)
                                      : argument.default_value().value_or(c10::IValue()));
    if (it != given.end()) given.erase(it);
  }
  SLIMPACK_CHECK(given.empty(), "an operator of FlashAttention-3 lacks an argument");
  op->callBoxed(&stack);
  return stack;
}

/// The arguments of a call that both passes have.
Arguments arguments_of(const FlashCall& call, const at::Tensor& q_TND, const KeysValues& kv) {
  Arguments all{{"q", call.batched(q_TND)},
                {"k", call.batched(kv.k)},
                {"v", call.batched(kv.v)},
                {"softmax_scale", 1 / std::sqrt(static_cast<double>(q_TND.size(2)))},
                {"is_causal", call.causal}};
  if (call.windowed()) {
    all.emplace("window_size_left", call.keys_before_own());
    all.emplace("window_size_right", std::int64_t{0});
  }
  if (call.sequences == nullptr) return all;
  all.emplace("cu_seqlens_q", call.sequences->query_ends_B1);
  all.emplace("cu_seqlens_k", call.sequences->key_ends_B1);
  all.emplace("max_seqlen_q", call.sequences->longest_queries);
  all.emplace("max_seqlen_k", call.sequences->longest_keys);
  return all;
}

class FlashAttention3 final : public FlashKernel {
 public:
  [[nodiscard]] std::int32_t release() const override { return 3; }
  [[nodiscard]] bool supports(const at::Tensor& like, const AttentionHeads& heads) const override;

 private:
  [[nodiscard]] AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                        const KeysValues& kv) const override;
  [[nodiscard]] AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                            const KeysValues& kv) const override;
};

bool FlashAttention3::supports(const at::Tensor& like, const AttentionHeads& heads) const {
  if (like.scalar_type() != at::kBFloat16 || heads.dim % 8 != 0 || heads.dim > 256) return false;
  const auto key = like.options().computeDispatchKey();
  const auto forward = find_operator("fwd"), backward = find_operator("bwd");
  return forward && backward && forward->hasKernelForDispatchKey(key) &&
         backward->hasKernelForDispatchKey(key);
}

AttentionResult FlashAttention3::forward(const FlashCall& call, const at::Tensor& q_TND,
                                         const KeysValues& kv) const {
  Arguments arguments = arguments_of(call, q_TND, kv);
  // Several parts of the keys at a time would be merged in whatever order they end.
  arguments.emplace("num_splits",
                    std::int64_t{at::globalContext().deterministicAlgorithms() ? 1 : 0});
  const torch::jit::Stack result = call_operator("fwd", std::move(arguments));
  return {call.unbatched(result[0].toTensor()),
          call.unbatched(result[1].toTensor()).transpose(0, 1)};
}

AttentionGradients FlashAttention3::backward(const FlashCall& call, const QueryRows& rows,
                                             const KeysValues& kv) const {
  const auto room = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  AttentionGradients d{room(rows.q_TND), room(kv.k), room(kv.v)};
  Arguments arguments = arguments_of(call, rows.q_TND, kv);
  arguments.emplace("dout", call.batched(rows.dout_TND));
  arguments.emplace("out", call.batched(rows.out_TND));
  arguments.emplace("softmax_lse", call.batched(lse_by_head(rows.lse_TN)));
  arguments.emplace("dq", call.batched(d.dq_TND));
  arguments.emplace("dk", call.batched(d.dk_TGD));
  arguments.emplace("dv", call.batched(d.dv_TGD));
  arguments.emplace("deterministic", at::globalContext().deterministicAlgorithms());
  static_cast<void>(call_operator("bwd", std::move(arguments)));
  return d;
}

}  // namespace

std::unique_ptr<const FlashKernel> flash_attention_3() {
  return std::make_unique<FlashAttention3>();
}

}  // namespace slimpack
