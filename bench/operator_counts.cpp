#include "bench/operator_counts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

namespace slimpack {
namespace {

at::Device counted_device(at::kCPU);
thread_local OperatorCounts counts;
thread_local bool in_kernel = false;

/// Leaves the kernel again when the operator ends.
struct Launched final : at::ObserverContext {};

bool launches(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 3> kNothing{"aten::record_stream", "aten::resize_",
                                                     "aten::_local_scalar_dense"};
  const std::string& name = op.schema().name();
  const auto& returns = op.schema().returns();
  if (std::ranges::find(kNothing, name) != kNothing.end() || name.starts_with("aten::empty"))
    return false;
  const bool gives_tensors = std::ranges::any_of(returns, [](const c10::Argument& result) {
    return result.type()->isSubtypeOf(*c10::TensorType::get()) ||
           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
  if (!gives_tensors) return false;
  const c10::AliasInfo* alias = returns.front().alias_info();
  if (alias != nullptr && !alias->isWrite()) return false;  // a view
  if (name == "aten::copy_") return true;                   // one implementation for all devices
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(at::TensorOptions(counted_device).computeDispatchKey());
}

bool on_counted_device(const c10::IValue& value) {
  if (value.isTensor())
    return value.toTensor().defined() && value.toTensor().device() == counted_device;
  if (!value.isTensorList()) return false;
  const std::vector<at::Tensor> list = value.toTensorVector();
  return std::ranges::any_of(
      list, [](const at::Tensor& t) { return t.defined() && t.device() == counted_device; });
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (in_kernel || !function.operator_name()) return nullptr;
  const auto op = c10::Dispatcher::singleton().findSchema(*function.operator_name());
  if (!op || !launches(*op)) return nullptr;
  if (std::ranges::none_of(function.inputs(), on_counted_device)) return nullptr;
  ++counts[op->schema().name()];
  in_kernel = true;
  return std::make_unique<Launched>();
}

void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (dynamic_cast<Launched*>(context) != nullptr) in_kernel = false;
}

}  // namespace

void count_operators(at::Device device) {
  counted_device = device;
  static const at::CallbackHandle counting = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(counting);
}

const OperatorCounts& counts_of_thread() {
  return counts;
}

std::int64_t sum_of(const OperatorCounts& all) {
  std::int64_t sum = 0;
  for (const auto& [name, times] : all) sum += times;
  return sum;
}

OperatorCounts difference(const OperatorCounts& later, const OperatorCounts& earlier) {
  OperatorCounts result;
  for (const auto& [name, times] : later) {
    const auto it = earlier.find(name);
    const std::int64_t more = times - (it == earlier.end() ? 0 : it->second);
    if (more != 0) result[name] = more;
  }
  return result;
}

}  // namespace slimpack
