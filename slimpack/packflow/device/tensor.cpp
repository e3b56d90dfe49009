#include "slimpack/packflow/device/tensor.h"

#include <ATen/ops/cat.h>

namespace slimpack {

at::ScalarType accumulate_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor joined_rows(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace slimpack
