// Weight gradients: the half of a layer's backward for which nothing waits but the optimizer, run
// with the other half or put off.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/tensor_rows.h"

namespace slimpack {

/// Called with a number of buckets: of so many of StageParameters::buckets, from the first on,
/// nothing will add to the gradients any more. Numbers ascend. Empty = nobody wants to know.
using BucketsComplete = std::function<void(std::size_t)>;

/// What the gradients of a linear map's weight and bias are computed from. Of the hidden states,
/// which a map has on one side, a tensor-parallel rank has its own rows; of the other side all rows
/// and its columns. Parameters are borrowed.
struct LinearOperands {
  at::Tensor dy_TO;  ///< gradient of its output: hidden states unless `norm_I` is given
  at::Tensor x_TI;   ///< its input; where `norm_I` is given, x / rms(x) of that norm: hidden states
  const Parameter* norm_I;
  Parameter* weight_OI;
  Parameter* bias_O;  ///< may be undefined
};

/// Weight gradients of one backward MicroPack on one stage.
class WeightGradients {
 public:
  enum class When : std::uint8_t { kNow, kLater };

  explicit WeightGradients(When when) : when_(when) {}

  /// kNow: adds the map's gradients. kLater: keeps the operands until run(). Those that are views
  /// of larger tensors are copied, so that nothing but themselves stays alive. `all_dy_TO`: where
  /// dy are hidden states, all rows of them, which are not kept.
  void add(LinearOperands operands, const TensorRows& rows, const at::Tensor& all_dy_TO = {});

  /// Adds what was kept, in the order in which it was, and frees it map by map; gathers hidden
  /// states again. `rows`: of the MicroPack, as in add(). `complete` is told of each bucket when
  /// the last map of it is done.
  void run(const TensorRows& rows, const BucketsComplete& complete = {});

  [[nodiscard]] bool empty() const { return kept_.empty(); }

 private:
  When when_;
  std::vector<LinearOperands> kept_;
};

}  // namespace slimpack
