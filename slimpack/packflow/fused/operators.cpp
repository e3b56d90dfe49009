// The operators of libtorch's dispatcher, and what they do with tensors: addresses and sizes for
// the launchers. Schemas say what is read, written (!) and returned, so that profilers and counters
// of bytes see each operator as what it is.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/fused/fused.h"

namespace slimpack::fused {
namespace {

/// Rows of a block of the norm's backward, at least: its sums over them are a quarter of a row.
constexpr std::int64_t kRowsOfSum = 8;
/// Heads of a block of the q/k norms' backward, at least: its sums over them are as wide as one.
constexpr std::int64_t kHeadsOfSum = 128;

using OptionalTensor = std::optional<at::Tensor>;

Queue queue_of(const at::Tensor& tensor) {
  return {own_queue(tensor.device()).native_handle(), tensor.device().index()};
}

template <class T = Bf16>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <class T = Bf16>
T* data(const OptionalTensor& tensor) {
  return tensor && tensor->defined() ? data<T>(*tensor) : nullptr;
}

void require_launched(int error, const char* name) {
  SLIMPACK_CHECK(error == 0, "the kernel of {} was not launched: CUDA's error {}", name, error);
}

void swiglu_on(const Launchers& to, const at::Tensor& gate_up_TO, const at::Tensor& act_TF) {
  require_launched(
      to.swiglu(queue_of(act_TF), data(gate_up_TO), data(act_TF), act_TF.size(0), act_TF.size(1)),
      "swiglu");
}

at::Tensor swiglu_backward_on(const Launchers& to, const at::Tensor& dact_TF,
                              const at::Tensor& gate_up_TO, const at::Tensor& d_gate_up_TO) {
  require_launched(
      to.swiglu_backward(queue_of(dact_TF), data(dact_TF), data(gate_up_TO), data(d_gate_up_TO),
                         data(dact_TF), dact_TF.size(0), dact_TF.size(1)),
      "swiglu_backward");
  return dact_TF;
}

at::Tensor rms_norm_on(const Launchers& to, const at::Tensor& x_TH, const at::Tensor& weight_H,
                       double eps) {
  at::Tensor y_TH = at::empty(x_TH.sizes(), x_TH.options());
  const std::int64_t width = weight_H.size(0);
  require_launched(to.rms_norm(queue_of(x_TH), data(x_TH), data(weight_H), data(y_TH),
                               static_cast<float>(eps), x_TH.numel() / width, width),
                   "rms_norm");
  return y_TH;
}

/// dx, and the sums of the weight's gradient by block.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward_on(const Launchers& to,
                                                        const at::Tensor& dy_TH,
                                                        const at::Tensor& x_TH,
                                                        const at::Tensor& weight_H,
                                                        const OptionalTensor& residual_TH,
                                                        double eps, const OptionalTensor& y_TH) {
  const std::int64_t width = weight_H.size(0), rows = dy_TH.numel() / width;
  const Queue queue = queue_of(dy_TH);
  const std::int64_t most = to.rms_norm_blocks(queue.device, width);
  SLIMPACK_CHECK(most > 0, "device {} does not say how many multiprocessors it has", queue.device);
  const std::int64_t blocks = std::min(most, (rows + kRowsOfSum - 1) / kRowsOfSum);
  at::Tensor dweight_BH = at::empty({blocks, width}, dy_TH.options().dtype(at::kFloat));
  require_launched(
      to.rms_norm_backward(queue, {data(dy_TH), data(x_TH), data(weight_H), data(residual_TH),
                                   data(dy_TH), data(y_TH), data<float>(dweight_BH),
                                   static_cast<float>(eps), blocks, rows, width}),
      "rms_norm_backward");
  return {dy_TH, dweight_BH};
}

at::Tensor add_columns_on(const Launchers& to, const at::Tensor& sum_H,
                          const at::Tensor& addends_BH) {
  require_launched(to.add_columns(queue_of(sum_H), data<float>(addends_BH), data<float>(sum_H),
                                  addends_BH.size(0), addends_BH.size(1)),
                   "add_columns");
  return sum_H;
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_on(const Launchers& to,
                                                    const at::Tensor& logits_TV,
                                                    const at::Tensor& targets_T,
                                                    std::int64_t from) {
  const auto by_row = [&] {
    return at::empty({logits_TV.size(0), 1}, logits_TV.options().dtype(at::kFloat));
  };
  at::Tensor lse_T1 = by_row(), target_T1 = by_row();
  require_launched(to.cross_entropy(queue_of(logits_TV), data(logits_TV),
                                    data<std::int64_t>(targets_T), from, data<float>(lse_T1),
                                    data<float>(target_T1), logits_TV.size(0), logits_TV.size(1)),
                   "cross_entropy");
  return {lse_T1, target_T1};
}

at::Tensor cross_entropy_backward_on(const Launchers& to, const at::Tensor& logits_TV,
                                     const at::Tensor& targets_T, std::int64_t from,
                                     const at::Tensor& lse_T1, const at::Tensor& weight_T1) {
  require_launched(
      to.cross_entropy_backward(queue_of(logits_TV), data(logits_TV), data<std::int64_t>(targets_T),
                                from, data<float>(lse_T1), data<float>(weight_T1),
                                logits_TV.size(0), logits_TV.size(1)),
      "cross_entropy_backward");
  return logits_TV;
}

HeadRows head_rows(const OptionalTensor& heads) {
  if (!heads || !heads->defined()) return {nullptr, 0, 0};
  return {data(*heads), heads->stride(0), heads->stride(1)};
}

/// Heads of a call: of what operators do not get there are none.
struct HeadArguments {
  const OptionalTensor q_TND, k_TGD, v_TGD;
};

RopeArguments rope_arguments(const HeadArguments& from, const at::Tensor& cos,
                             const at::Tensor& sin, double sign, const HeadArguments& to) {
  const auto heads = [](const OptionalTensor& rows) {
    return rows && rows->defined() ? static_cast<int>(rows->size(1)) : 0;
  };
  return {head_rows(from.q_TND),
          head_rows(from.k_TGD),
          head_rows(from.v_TGD),
          head_rows(to.q_TND),
          head_rows(to.k_TGD),
          head_rows(to.v_TGD),
          data(cos),
          data(sin),
          cos.stride(0),
          from.q_TND->size(0),
          heads(from.q_TND),
          heads(from.k_TGD),
          static_cast<int>(from.q_TND->size(2)),
          static_cast<float>(sign)};
}

void rope_on(const Launchers& to, const at::Tensor& q_TND, const at::Tensor& k_TGD,
             const OptionalTensor& v_TGD, const at::Tensor& cos, const at::Tensor& sin, double sign,
             const at::Tensor& to_q_TND, const at::Tensor& to_k_TGD,
             const OptionalTensor& to_v_TGD) {
  require_launched(to.rope(queue_of(q_TND), rope_arguments({q_TND, k_TGD, v_TGD}, cos, sin, sign,
                                                           {to_q_TND, to_k_TGD, to_v_TGD})),
                   "rope");
}

void normed_rope_on(const Launchers& to, const at::Tensor& q_TND, const OptionalTensor& k_TGD,
                    const OptionalTensor& v_TGD, const at::Tensor& cos, const at::Tensor& sin,
                    const at::Tensor& q_weight_D, const at::Tensor& k_weight_D, double eps,
                    const at::Tensor& to_q_TND, const OptionalTensor& to_k_TGD,
                    const OptionalTensor& to_v_TGD, const OptionalTensor& kept_q_TND,
                    const OptionalTensor& kept_k_TGD) {
  require_launched(to.normed_rope(queue_of(q_TND),
                                  {rope_arguments({q_TND, k_TGD, v_TGD}, cos, sin, 1,
                                                  {to_q_TND, to_k_TGD, to_v_TGD}),
                                   head_rows(kept_q_TND), head_rows(kept_k_TGD), data(q_weight_D),
                                   data(k_weight_D), static_cast<float>(eps)}),
                   "normed_rope");
}

/// The sums of the weights' gradients by block, q's and k's.
std::tuple<at::Tensor, at::Tensor> normed_rope_backward_on(
    const Launchers& to, const at::Tensor& dq_TND, const at::Tensor& dk_TGD,
    const at::Tensor& dv_TGD, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& q_TND,
    const at::Tensor& k_TGD, const at::Tensor& q_weight_D, const at::Tensor& k_weight_D, double eps,
    const at::Tensor& to_q_TND, const at::Tensor& to_k_TGD, const at::Tensor& to_v_TGD) {
  const Queue queue = queue_of(dq_TND);
  const std::int64_t most = to.normed_rope_blocks(queue.device);
  SLIMPACK_CHECK(most > 1, "device {} does not say how many multiprocessors it has", queue.device);
  const std::int64_t q_heads = q_TND.size(1), k_heads = k_TGD.size(1), width = q_TND.size(2);
  const auto sums = [&](std::int64_t heads, std::int64_t most_blocks) {
    const std::int64_t blocks = (q_TND.size(0) * heads + kHeadsOfSum - 1) / kHeadsOfSum;
    return at::empty({std::min(most_blocks, blocks), width}, dq_TND.options().dtype(at::kFloat));
  };
  // Blocks of k copy v, too.
  const std::int64_t of_q =
      std::clamp<std::int64_t>(most * q_heads / (q_heads + 2 * k_heads), 1, most - 1);
  at::Tensor dq_weight_BD = sums(q_heads, of_q), dk_weight_BD = sums(k_heads, most - of_q);
  require_launched(
      to.normed_rope_backward(
          queue,
          {rope_arguments({dq_TND, dk_TGD, dv_TGD}, cos, sin, -1, {to_q_TND, to_k_TGD, to_v_TGD}),
           head_rows(q_TND), head_rows(k_TGD), data(q_weight_D), data(k_weight_D),
           data<float>(dq_weight_BD), data<float>(dk_weight_BD), static_cast<float>(eps),
           dq_weight_BD.size(0), dk_weight_BD.size(0)}),
      "normed_rope_backward");
  return {std::move(dq_weight_BD), std::move(dk_weight_BD)};
}

bool is_declared() {
  return c10::Dispatcher::singleton().findSchema({"slimpack::swiglu", ""}).has_value();
}

// Each library of a process that has this room comes here: the first declares the operators.
TORCH_LIBRARY_FRAGMENT(slimpack, m) {
  if (is_declared()) return;
  m.def("swiglu(Tensor gate_up, Tensor(a!) act) -> ()");
  m.def("swiglu_backward(Tensor(a!) dact, Tensor gate_up, Tensor(b!) d_gate_up) -> Tensor(a!)");
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def(
      "rms_norm_backward(Tensor(a!) dy, Tensor x, Tensor weight, Tensor? residual, float eps, "
      "Tensor(b!)? y) -> (Tensor(a!), Tensor)");
  m.def("add_columns(Tensor(a!) sum, Tensor addends) -> Tensor(a!)");
  m.def("cross_entropy(Tensor logits, Tensor targets, int from) -> (Tensor, Tensor)");
  m.def(
      "cross_entropy_backward(Tensor(a!) logits, Tensor targets, int from, Tensor lse, Tensor "
      "weight) -> Tensor(a!)");
  m.def(
      "rope(Tensor q, Tensor k, Tensor? v, Tensor cos, Tensor sin, float sign, Tensor(a!) to_q, "
      "Tensor(b!) to_k, Tensor(c!)? to_v) -> ()");
  m.def(
      "normed_rope(Tensor q, Tensor? k, Tensor? v, Tensor cos, Tensor sin, Tensor q_weight, Tensor "
      "k_weight, float eps, Tensor(a!) to_q, Tensor(b!)? to_k, Tensor(c!)? to_v, Tensor(d!)? "
      "kept_q, Tensor(e!)? kept_k) -> ()");
  m.def(
      "normed_rope_backward(Tensor dq, Tensor dk, Tensor dv, Tensor cos, Tensor sin, Tensor q, "
      "Tensor k, Tensor q_weight, Tensor k_weight, float eps, Tensor(a!) to_q, Tensor(b!) to_k, "
      "Tensor(c!) to_v) -> (Tensor, Tensor)");
  if (const Launchers* const cuda = cuda_launchers()) {
    static torch::Library kernels(torch::Library::IMPL, "slimpack", c10::DispatchKey::CUDA,
                                  __FILE__, __LINE__);
    implement(kernels, *cuda);
  }
}

/// An operator's function, as one of these launchers.
template <class Result, class... Arguments>
auto with(Result (*function)(const Launchers&, Arguments...), const Launchers& to) {
  return [function, &to](Arguments... arguments) -> Result {
    return function(to, static_cast<Arguments>(arguments)...);
  };
}

/// The operator of that name as a function.
template <class Signature>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// Adds to a weight's gradient.
void add_columns(const at::Tensor& sum_H, const at::Tensor& addends_BH) {
  static const auto call =
      operator_of<at::Tensor(const at::Tensor&, const at::Tensor&)>("slimpack::add_columns");
  call.call(sum_H, addends_BH);
}

bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

bool takes(const at::Tensor& heads) {
  return heads.scalar_type() == at::kBFloat16 && heads.stride(-1) == 1 &&
         heads.stride(0) % 8 == 0 && heads.stride(1) % 8 == 0 && is_aligned(heads);
}

}  // namespace

void implement(torch::Library& library, const Launchers& launchers) {
  library.impl("swiglu", with(swiglu_on, launchers));
  library.impl("swiglu_backward", with(swiglu_backward_on, launchers));
  library.impl("rms_norm", with(rms_norm_on, launchers));
  library.impl("rms_norm_backward", with(rms_norm_backward_on, launchers));
  library.impl("add_columns", with(add_columns_on, launchers));
  library.impl("cross_entropy", with(cross_entropy_on, launchers));
  library.impl("cross_entropy_backward", with(cross_entropy_backward_on, launchers));
  library.impl("rope", with(rope_on, launchers));
  library.impl("normed_rope", with(normed_rope_on, launchers));
  library.impl("normed_rope_backward", with(normed_rope_backward_on, launchers));
}

bool are_there_for(const at::Tensor& like) {
  static const c10::OperatorHandle any =
      c10::Dispatcher::singleton().findSchemaOrThrow("slimpack::swiglu", "");
  return like.scalar_type() == at::kBFloat16 &&
         any.hasKernelForDispatchKey(like.options().computeDispatchKey());
}

bool are_there_on(at::Device device) {
  return are_there_for(at::empty({0}, at::dtype(at::kBFloat16).device(device)));
}

bool takes_rows(const at::Tensor& rows) {
  return are_there_for(rows) && rows.size(-1) % 8 == 0 && rows.is_contiguous() && is_aligned(rows);
}

void swiglu(const at::Tensor& gate_up_TO, const at::Tensor& act_TF) {
  static const auto call =
      operator_of<void(const at::Tensor&, const at::Tensor&)>("slimpack::swiglu");
  call.call(gate_up_TO, act_TF);
}

void swiglu_backward(const at::Tensor& dact_TF, const at::Tensor& gate_up_TO,
                     const at::Tensor& d_gate_up_TO) {
  static const auto call =
      operator_of<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
          "slimpack::swiglu_backward");
  call.call(dact_TF, gate_up_TO, d_gate_up_TO);
}

bool takes_norm(const at::Tensor& x_TH, const at::Tensor& weight_H) {
  constexpr std::int64_t kWidest = 8192;
  return takes_rows(x_TH) && x_TH.size(-1) <= kWidest && is_aligned(weight_H);
}

at::Tensor rms_norm(const at::Tensor& x_TH, const at::Tensor& weight_H, double eps) {
  static const auto call =
      operator_of<at::Tensor(const at::Tensor&, const at::Tensor&, double)>("slimpack::rms_norm");
  return call.call(x_TH, weight_H, eps);
}

void rms_norm_backward(const at::Tensor& dy_TH, const NormBackward& norm, const at::Tensor& y_TH,
                       const at::Tensor& dweight_H) {
  static const auto backward = operator_of<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&, double,
      const OptionalTensor&)>("slimpack::rms_norm_backward");
  const at::Tensor sums_BH = std::get<1>(backward.call(
      dy_TH, norm.x_TH, norm.weight_H, if_defined(norm.residual_TH), norm.eps, if_defined(y_TH)));
  add_columns(dweight_H, sums_BH);
}

TargetLogits cross_entropy(const at::Tensor& logits_TV, const at::Tensor& targets_T,
                           std::int64_t from) {
  static const auto call = operator_of<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, std::int64_t)>("slimpack::cross_entropy");
  auto [lse_T1, target_T1] = call.call(logits_TV, targets_T, from);
  return {std::move(lse_T1), std::move(target_T1)};
}

void cross_entropy_backward(const at::Tensor& logits_TV, const at::Tensor& targets_T,
                            std::int64_t from, const at::Tensor& lse_T1,
                            const at::Tensor& weight_T1) {
  static const auto call =
      operator_of<at::Tensor(const at::Tensor&, const at::Tensor&, std::int64_t, const at::Tensor&,
                             const at::Tensor&)>("slimpack::cross_entropy_backward");
  call.call(logits_TV, targets_T, from, lse_T1, weight_T1);
}

bool takes_heads(const Heads& from, const Angles& angles, const Heads& to) {
  const auto all = {from.q_TND, from.k_TGD, from.v_TGD, to.q_TND,
                    to.k_TGD,   to.v_TGD,   angles.cos, angles.sin};
  return are_there_for(from.q_TND) && from.q_TND.size(2) % 16 == 0 &&
         angles.cos.stride(0) == angles.sin.stride(0) &&
         std::ranges::all_of(all, [](const at::Tensor& t) { return !t.defined() || takes(t); });
}

void rope(const Heads& from, const Angles& angles, double sign, const Heads& to) {
  static const auto call =
      operator_of<void(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                       const at::Tensor&, const at::Tensor&, double, const at::Tensor&,
                       const at::Tensor&, const OptionalTensor&)>("slimpack::rope");
  const bool copies = from.v_TGD.defined() && to.v_TGD.defined();
  call.call(from.q_TND, from.k_TGD, copies ? OptionalTensor(from.v_TGD) : std::nullopt, angles.cos,
            angles.sin, sign, to.q_TND, to.k_TGD, copies ? OptionalTensor(to.v_TGD) : std::nullopt);
}

bool takes_normed_heads(const Heads& heads, const HeadNorms& norms) {
  return are_there_for(heads.q_TND) && heads.q_TND.size(2) % 16 == 0 &&
         heads.q_TND.size(2) <= kWidestNormedHead && is_aligned(norms.q_weight_D) &&
         is_aligned(norms.k_weight_D);
}

void normed_rope(const Heads& from, const Angles& angles, const HeadNorms& norms, const Heads& to,
                 const Heads& kept) {
  static const auto call =
      operator_of<void(const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                       const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                       double, const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                       const OptionalTensor&, const OptionalTensor&)>("slimpack::normed_rope");
  call.call(from.q_TND, if_defined(from.k_TGD), if_defined(from.v_TGD), angles.cos, angles.sin,
            norms.q_weight_D, norms.k_weight_D, norms.eps, to.q_TND, if_defined(to.k_TGD),
            if_defined(to.v_TGD), if_defined(kept.q_TND), if_defined(kept.k_TGD));
}

void normed_rope_backward(const Heads& gradients, const Angles& angles, const HeadNorms& norms,
                          const Heads& before, const Heads& to, const NormGradients& sums) {
  static const auto call = operator_of<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
      const at::Tensor&, const at::Tensor&, const at::Tensor&)>("slimpack::normed_rope_backward");
  const auto [q_BD, k_BD] = call.call(gradients.q_TND, gradients.k_TGD, gradients.v_TGD, angles.cos,
                                      angles.sin, before.q_TND, before.k_TGD, norms.q_weight_D,
                                      norms.k_weight_D, norms.eps, to.q_TND, to.k_TGD, to.v_TGD);
  add_columns(sums.q_D, q_BD);
  add_columns(sums.k_D, k_BD);
}

}  // namespace slimpack::fused
