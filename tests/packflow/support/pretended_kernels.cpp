// Kernels that libtorch has for GPUs alone, for the pretended device: what their documentation
// says, computed by operators of the CPU. Linking this file registers them, so that the runtime
// goes the same way there as on a GPU. Attention is boxed, because releases of libtorch differ in
// its last arguments.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <memory>
#include <utility>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/libtorch_attention.h"
#include "tests/packflow/support/pretended_device.h"

namespace slimpack::testing {
namespace {

using Stack = torch::jit::Stack;

/// A result of the CPU, on the device.
at::Tensor put_there(const at::Tensor& here) {
  const at::Tensor there =
      at::empty_strided(here.sizes(), here.strides(), here.options().device(kPretended));
  seen_by_cpu(there).copy_(here);
  return there;
}

/// Where the sequences of a call begin, and the end of the last. One block has no bounds, but a
/// dimension of its own.
std::vector<std::int64_t> ends_of(const c10::IValue& bounds, std::int64_t rows) {
  if (bounds.isNone() || !bounds.toTensor().defined()) return {0, rows};
  const at::Tensor ends = seen_by_cpu(bounds.toTensor());
  TORCH_CHECK(ends.scalar_type() == at::kInt && ends.is_contiguous());
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < ends.numel(); ++i) result.push_back(ends.const_data_ptr<int>()[i]);
  TORCH_CHECK(result.back() == rows, "rows beyond the last sequence");
  return result;
}

/// The arguments of both passes, on the CPU and without the dimension of a single block.
struct FlashCall {
  bool block, causal;
  std::int64_t window;  ///< 0: none
  at::Tensor q_TND, k_TGD, v_TGD;
  std::vector<std::int64_t> query_ends, key_ends;

  FlashCall(const Stack& arguments, std::size_t first, std::size_t bounds, bool is_causal,
            const c10::IValue& window_left)
      : block(arguments[first].toTensor().dim() == 4),
        causal(is_causal),
        window(window_left.isNone() ? 0 : window_left.toInt() + 1),
        q_TND(rows(arguments[first])),
        k_TGD(rows(arguments[first + 1])),
        v_TGD(rows(arguments[first + 2])),
        query_ends(ends_of(arguments[bounds], q_TND.size(0))),
        key_ends(ends_of(arguments[bounds + 1], k_TGD.size(0))) {}

  [[nodiscard]] at::Tensor rows(const c10::IValue& argument) const {
    const at::Tensor tensor = seen_by_cpu(argument.toTensor());
    TORCH_CHECK(tensor.size(-1) == 1 || tensor.stride(-1) == 1);
    return block ? tensor.squeeze(0) : tensor;
  }
  [[nodiscard]] at::Tensor result(const at::Tensor& rows) const {
    return put_there(block ? rows.unsqueeze(0) : rows);
  }
  /// Calls visit(queries, keys and values) of each sequence. Causal masks are aligned bottom-right.
  template <class Visit>
  void for_each_sequence(Visit visit) const {
    for (std::size_t s = 0; s + 1 < query_ends.size(); ++s) {
      const std::int64_t keys = key_ends[s + 1] - key_ends[s];
      visit(query_ends[s], query_ends[s + 1] - query_ends[s],
            KeysValues{k_TGD, v_TGD}.narrow(key_ends[s], keys));
    }
  }
  [[nodiscard]] Mask mask() const { return {causal ? Mask::kCausalEnd : Mask::kNone, window}; }
};

void flash_forward(const c10::OperatorHandle& op, Stack* stack) {
  const Stack i = torch::jit::pop(*stack, op.schema().arguments().size());
  const FlashCall call(i, 0, 3, i[8].toBool(), i[11]);
  std::vector<at::Tensor> out, lse;
  call.for_each_sequence([&](std::int64_t row, std::int64_t count, const KeysValues& kv) {
    AttentionResult one = composed_attend(call.q_TND.narrow(0, row, count), kv, call.mask());
    out.push_back(std::move(one.out_TND));
    lse.push_back(std::move(one.lse_TN));
  });
  const at::Tensor none = put_there(at::empty({0}));
  torch::jit::push(*stack, call.result(at::cat(out)),
                   call.result(at::cat(lse).transpose(0, 1).contiguous()), none, none, none);
}

void flash_backward(const c10::OperatorHandle& op, Stack* stack) {
  const Stack i = torch::jit::pop(*stack, op.schema().arguments().size());
  const FlashCall call(i, 1, 6, i[11].toBool(), i[15]);
  TORCH_CHECK(i[5].toTensor().is_contiguous(), "the log-sum-exp is read through its pointer");
  const QueryRows rows{call.rows(i[0]), call.q_TND, call.rows(i[4]),
                       call.rows(i[5]).transpose(0, 1)};
  std::vector<at::Tensor> dq, dk, dv;
  call.for_each_sequence([&](std::int64_t row, std::int64_t count, const KeysValues& kv) {
    AttentionGradients one = composed_attend_backward(rows.narrow(row, count), kv, call.mask());
    dq.push_back(std::move(one.dq_TND));
    dk.push_back(std::move(one.dk_TGD));
    dv.push_back(std::move(one.dv_TGD));
  });
  torch::jit::push(*stack, call.result(at::cat(dq)), call.result(at::cat(dk)),
                   call.result(at::cat(dv)));
}

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::tuple<at::Tensor, at::Tensor> fused_rms_norm(const at::Tensor& input, at::IntArrayRef,
                                                  const std::optional<at::Tensor>& weight,
                                                  std::optional<double> eps) {
  const at::Tensor x = seen_by_cpu(input).to(sum_type(input));
  const at::Tensor rstd = x.square().mean(-1, /*keepdim=*/true).add_(eps.value()).rsqrt_();
  at::Tensor y = x * rstd;
  if (weight && weight->defined()) y.mul_(seen_by_cpu(*weight));
  return {put_there(y.to(input.scalar_type())), put_there(rstd)};
}

std::tuple<at::Tensor, at::Tensor> fused_rms_norm_backward(
    const at::Tensor& dy, const at::Tensor& input, at::IntArrayRef shape, const at::Tensor& rstd,
    const std::optional<at::Tensor>& weight, std::array<bool, 2> mask) {
  const auto type = sum_type(input);
  const at::Tensor r = seen_by_cpu(rstd), n = seen_by_cpu(input).to(type) * r;
  const at::Tensor dy_here = seen_by_cpu(dy).to(type);
  const at::Tensor g = dy_here * seen_by_cpu(*weight).to(type);
  const at::Tensor dx = (g - n * (g * n).mean(-1, /*keepdim=*/true)) * r;
  at::Tensor dweight;
  if (mask[1])
    dweight = put_there((dy_here * n).reshape({-1, shape[0]}).sum(0).to(weight->scalar_type()));
  return {mask[0] ? put_there(dx.to(input.scalar_type())) : at::Tensor(), dweight};
}

at::Tensor& addmm_widened(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                          at::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha,
                          at::Tensor& out) {
  at::Tensor sum = seen_by_cpu(out);
  at::addmm_out(sum, seen_by_cpu(self), seen_by_cpu(a).to(type), seen_by_cpu(b).to(type), beta,
                alpha);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_flash_attention_forward", torch::CppFunction::makeFromBoxedFunction<&flash_forward>());
  m.impl("_flash_attention_backward", torch::CppFunction::makeFromBoxedFunction<&flash_backward>());
  m.impl("_fused_rms_norm", fused_rms_norm);
  m.impl("_fused_rms_norm_backward", fused_rms_norm_backward);
  m.impl("addmm.dtype_out", addmm_widened);
}

std::unique_ptr<torch::Library> registered_loops() {
  auto library = std::make_unique<torch::Library>(
      torch::Library::IMPL, "slimpack", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  fused::implement(*library, fused::loop_launchers());
  return library;
}

/// Null while the device has none. Registered before any test begins.
std::unique_ptr<torch::Library> loops = registered_loops();

}  // namespace

WithoutFusedKernels::WithoutFusedKernels() {
  loops.reset();
}
WithoutFusedKernels::~WithoutFusedKernels() {
  loops = registered_loops();
}
}  // namespace slimpack::testing
