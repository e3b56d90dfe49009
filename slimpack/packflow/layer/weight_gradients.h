// Weight gradients: the half of a layer's backward that only the optimizer waits for. It runs with
// the other half or later.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/packflow/kernels/grouped_linear.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/tensor_rows.h"

namespace slimpack {

/// Called with n once the gradients of the first n of StageParameters::buckets are complete.
/// Numbers ascend. Empty = nobody listens.
using BucketsComplete = std::function<void(std::size_t)>;

/// Operands of the gradients of a linear map's weight and bias. One side of a map is hidden states:
/// a tensor-parallel rank has its own rows of them. It has all rows of the other side, and its own
/// columns. Parameters are borrowed.
struct LinearOperands {
  at::Tensor dy_TO;  ///< gradient of its output: hidden states unless `norm_I` is given
  at::Tensor x_TI;   ///< its input; where `norm_I` is given, x / rms(x) of that norm: hidden states
  const Parameter* norm_I;
  Parameter* weight_OI;
  Parameter* bias_O;        ///< may be undefined
  bool multiplied = false;  ///< x is n ⊙ the norm's weight already
  /// Experts have pairs on the other side, and the hidden states go to these. Undefined elsewhere.
  ExpertPairs pairs = {};
};

/// A map of normalised hidden states in backward: the gradient of its output, and its parameters.
struct NormedMap {
  at::Tensor dy_TO;
  Parameter* weight_OH;
  Parameter* bias_O;
  ExpertPairs pairs = {};  ///< as in LinearOperands
};

/// Weight gradients of one backward MicroPack on one stage.
class WeightGradients {
 public:
  enum class When : std::uint8_t { kNow, kLater };

  explicit WeightGradients(When when) : when_(when) {}

  /// kNow: adds the map's gradients. kLater: keeps the operands until run(). Views of larger
  /// tensors are copied, so that the larger ones can be freed. `all_dy_TO`: all rows of dy if dy
  /// are hidden states; they are not kept.
  void add(LinearOperands operands, const TensorRows& rows, const at::Tensor& all_dy_TO = {});

  /// Adds the kept maps' gradients in their order and frees the operands map by map; gathers hidden
  /// states again. `rows`: of the MicroPack, as in add(). `complete` is told of each bucket when
  /// the last map of it is done.
  void run(const TensorRows& rows, const BucketsComplete& complete = {});

  [[nodiscard]] bool empty() const { return kept_.empty(); }

 private:
  When when_;
  std::vector<LinearOperands> kept_;
};

}  // namespace slimpack
