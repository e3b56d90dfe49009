// Weight gradients: the half of a layer's backward for which nothing waits but the optimizer, run
// with the other half or put off.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/packflow/parameters.h"

namespace slimpack {

/// Called with a number of buckets: of so many of StageParameters::buckets, from the first on,
/// nothing will add to the gradients any more. Numbers ascend. Empty = nobody wants to know.
using BucketsComplete = std::function<void(std::size_t)>;

/// What the gradients of a linear map's weight and bias are computed from. Parameters are borrowed.
struct LinearOperands {
  at::Tensor dy_TO;  ///< gradient of its output
  at::Tensor x_TI;   ///< its input; where `norm_I` is given, x / rms(x) of that norm
  const Parameter* norm_I;
  Parameter* weight_OI;
  Parameter* bias_O;  ///< null = none
};

/// Weight gradients of one backward MicroPack on one stage.
class WeightGradients {
 public:
  enum class When : std::uint8_t { kNow, kLater };

  explicit WeightGradients(When when) : when_(when) {}

  /// kNow: adds the map's gradients. kLater: keeps the operands until run(). Those that are views
  /// of larger tensors are copied, so that nothing but themselves stays alive.
  void add(LinearOperands operands);

  /// Adds what was kept, in the order in which it was, and frees it map by map. `complete` is told
  /// of each bucket when the last map of it is done.
  void run(const BucketsComplete& complete = {});

  [[nodiscard]] bool empty() const { return kept_.empty(); }

 private:
  When when_;
  std::vector<LinearOperands> kept_;
};

}  // namespace slimpack
