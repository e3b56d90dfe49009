// Operators that libtorch has for some devices alone: fused kernels, mostly of GPUs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace slimpack {

class OptionalOperator {
 public:
  /// REQUIRES: libtorch declares it, for whatever device. `name` without namespace.
  explicit OptionalOperator(const char* name, const char* overload = "")
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + name).c_str(),
                                                           overload)) {}

  /// Whether there is a kernel for it where the tensor lies. An operator that libtorch composes of
  /// others does not count.
  [[nodiscard]] bool runs_on(const at::Tensor& tensor) const {
    return op_.hasKernelForDispatchKey(tensor.options().computeDispatchKey());
  }

 private:
  c10::OperatorHandle op_;
};

}  // namespace slimpack
