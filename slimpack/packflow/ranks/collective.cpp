#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

at::Tensor add_up(std::span<const at::Tensor> parts) {
  at::Tensor sum = parts.front().clone();
  for (const at::Tensor& part : parts.subspan(1)) sum.add_(part);
  return sum;
}

}  // namespace slimpack
