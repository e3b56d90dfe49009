#include "slimpack/packflow/weight_gradients.h"

#include <ATen/ops/mul.h>

#include <utility>

#include "slimpack/packflow/linear.h"

namespace slimpack {
namespace {

void accumulate(const LinearOperands& o) {
  Parameter no_bias;
  accumulate_linear_gradient(o.dy_TO,
                             o.norm_I == nullptr ? o.x_TI : at::mul(o.x_TI, o.norm_I->value),
                             *o.weight_OI, o.bias_O == nullptr ? no_bias : *o.bias_O);
}

/// The tensor itself where it is all of its storage.
at::Tensor own(at::Tensor tensor) {
  return tensor.storage().nbytes() == tensor.nbytes() ? std::move(tensor) : tensor.clone();
}

}  // namespace

void WeightGradients::add(LinearOperands operands) {
  if (when_ == When::kNow) {
    accumulate(operands);
    return;
  }
  operands.dy_TO = own(std::move(operands.dy_TO));
  operands.x_TI = own(std::move(operands.x_TI));
  kept_.push_back(std::move(operands));
}

void WeightGradients::run(const BucketsComplete& complete) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const std::size_t bucket = kept_[i].weight_OI->bucket;
    accumulate(std::exchange(kept_[i], {}));
    const bool last = i + 1 == kept_.size() || kept_[i + 1].weight_OI->bucket != bucket;
    if (last && complete) complete(bucket + 1);
  }
  kept_.clear();
}

}  // namespace slimpack
