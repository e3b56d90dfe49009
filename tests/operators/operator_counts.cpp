#include "tests/operators/operator_counts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

at::Device counted_device(at::kCPU);
thread_local OperatorCounts counts;
thread_local bool in_kernel = false;

/// An operator that runs; leaves the kernel again when it ends.
struct Launched final : at::ObserverContext {
  Launched(std::string operator_name, std::int64_t bytes_read)
      : name(std::move(operator_name)), read(bytes_read) {}
  std::string name;
  std::int64_t read;
};

constexpr std::array<std::string_view, 3> kPickRows{"aten::index_select", "aten::embedding",
                                                    "aten::gather"};
constexpr std::array<std::string_view, 4> kPutRows{"aten::index_copy_", "aten::index_add_",
                                                   "aten::index_put_", "aten::scatter_add_"};
constexpr std::array<std::string_view, 3> kOverwrite{"aten::copy_", "aten::zero_", "aten::fill_"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Elements that lie at places of their own: an expanded dimension has one.
std::int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) != 0) elements *= tensor.size(d);
  return elements * static_cast<std::int64_t>(tensor.element_size());
}

std::int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  std::int64_t bytes = 0;
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  return bytes;
}

/// Whether the operator writes the argument and does not read it.
bool overwrites(const std::string& name, const c10::Argument& argument) {
  const c10::AliasInfo* alias = argument.alias_info();
  return alias != nullptr && alias->isWrite() && (argument.is_out() || among(kOverwrite, name));
}

std::int64_t bytes_read(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs) {
  const std::string& name = op.schema().name();
  const auto& arguments = op.schema().arguments();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < std::min(arguments.size(), inputs.size()); ++i) {
    const bool table = i == 0 && (among(kPickRows, name) || among(kPutRows, name));
    if (!table && !overwrites(name, arguments[i])) bytes += bytes_of(inputs[i]);
  }
  return bytes;
}

/// Results, and the rows of a table that an operator picks or adds to.
std::int64_t bytes_of_results(const Launched& launched, const std::vector<c10::IValue>& outputs) {
  if (among(kPutRows, launched.name)) return 2 * launched.read;
  std::int64_t bytes = 0;
  for (const c10::IValue& output : outputs) bytes += bytes_of(output);
  return among(kPickRows, launched.name) ? 2 * bytes : bytes;
}

bool launches(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 3> kNothing{"aten::record_stream", "aten::resize_",
                                                     "aten::_local_scalar_dense"};
  const std::string& name = op.schema().name();
  if (name.starts_with("slimpack::")) return true;  // a fused kernel
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
  in_kernel = true;
  return std::make_unique<Launched>(op->schema().name(), bytes_read(*op, function.inputs()));
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* launched = dynamic_cast<Launched*>(context);
  if (launched == nullptr) return;
  in_kernel = false;
  OperatorUse& use = counts[launched->name];
  ++use.launches;
  use.bytes += launched->read + bytes_of_results(*launched, function.outputs());
}

}  // namespace

void count_operators(at::Device device) {
  counted_device = device;
  static const at::CallbackHandle counting =
      at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                .needsInputs(true)
                                .needsOutputs(true)
                                .scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(counting);
}

const OperatorCounts& counts_of_thread() {
  return counts;
}

std::int64_t launches_of(const OperatorCounts& all) {
  std::int64_t sum = 0;
  for (const auto& [name, use] : all) sum += use.launches;
  return sum;
}

OperatorCounts difference(const OperatorCounts& later, const OperatorCounts& earlier) {
  OperatorCounts result;
  for (const auto& [name, use] : later) {
    const auto it = earlier.find(name);
    const OperatorUse before = it == earlier.end() ? OperatorUse{} : it->second;
    const OperatorUse more{use.launches - before.launches, use.bytes - before.bytes};
    if (more != OperatorUse{}) result[name] = more;
  }
  return result;
}

}  // namespace slimpack
