#include "slimpack/packflow/layer/weight_gradients.h"

#include <ATen/ops/mul.h>

#include <utility>

#include "slimpack/packflow/kernels/linear.h"

namespace slimpack {
namespace {

/// Adds the gradient of a map whose side of hidden states has all rows.
void accumulate_map(const LinearOperands& o, const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  Parameter no_bias;
  if (o.pairs.defined())
    accumulate_grouped_gradient(dy_TO, x_TI, *o.weight_OI, o.pairs);
  else
    accumulate_linear_gradient(dy_TO, x_TI, *o.weight_OI, no_bias);
}

/// `all_dy_TO`: the gradient of a map's output over all rows, where that has own rows.
void accumulate(const LinearOperands& o, const TensorRows& rows, const at::Tensor& all_dy_TO) {
  const auto paired = [&](at::Tensor hidden_TH) {
    return o.pairs.defined() ? o.pairs.of_rows(hidden_TH) : hidden_TH;
  };
  if (o.bias_O->defined()) accumulate_bias_gradient(o.dy_TO, *o.bias_O);
  if (o.norm_I == nullptr) {
    accumulate_map(o, paired(all_dy_TO), o.x_TI);
    return;
  }
  accumulate_map(o, o.dy_TO,
                 paired(rows.gathered(o.multiplied ? o.x_TI : at::mul(o.x_TI, o.norm_I->value))));
}

/// The tensor itself where it is all of its storage.
at::Tensor own(at::Tensor tensor) {
  return tensor.storage().nbytes() == tensor.nbytes() ? std::move(tensor) : tensor.clone();
}

}  // namespace

void WeightGradients::add(LinearOperands operands, const TensorRows& rows,
                          const at::Tensor& all_dy_TO) {
  if (when_ == When::kNow) {
    accumulate(operands, rows, all_dy_TO);
    return;
  }
  operands.dy_TO = own(std::move(operands.dy_TO));
  operands.x_TI = own(std::move(operands.x_TI));
  kept_.push_back(std::move(operands));
}

void WeightGradients::run(const TensorRows& rows, const BucketsComplete& complete) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const LinearOperands operands = std::exchange(kept_[i], {});
    const bool own_dy = operands.norm_I == nullptr;
    accumulate(operands, rows, own_dy ? rows.gathered(operands.dy_TO) : at::Tensor());
    const std::size_t bucket = operands.weight_OI->bucket;
    const bool last = i + 1 == kept_.size() || kept_[i + 1].weight_OI->bucket != bucket;
    if (last && complete) complete(bucket + 1);
  }
  kept_.clear();
}

}  // namespace slimpack
