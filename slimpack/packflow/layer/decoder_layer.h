// One decoder layer on a MicroPack: linear parts on all rows at once, attention slice by slice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/layer/weight_gradients.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/packflow/stores/row_store.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// What both passes of a layer need besides rows. References; made per action and layer.
struct LayerContext {
  const ModelShape& shape;  ///< the rank's part of it (tensor_parallel_part)
  LayerParameters& parameters;
  KvStore& kv;
  std::size_t layer;  ///< within the stage
  const MicroPack& pack;
  RowShare share;  ///< of the pack's tokens, those that this rank holds
  const RopeRows& rope;
  Collective* group;       ///< replicas that run the pack together; null = one alone
  const TensorRows& rows;  ///< its hidden states over the tensor-parallel ranks
  Recompute recompute = Recompute::kElementwise;  ///< what forward does not keep
};

struct LayerForward {
  at::Tensor y_TH;
  LayerRows rows;
};

/// y = x + attention + MLP. Writes the slices' keys and values to the store.
[[nodiscard]] LayerForward layer_forward(const LayerContext& context, const at::Tensor& x_TH);

/// Gradient of x from that of y; adds to the norms' gradients, leaves those of the linear maps to
/// `weights`, adds the prefixes' dK/dV to the store and releases the slices there. Rows that
/// forward did not keep are computed again.
[[nodiscard]] at::Tensor layer_backward(const LayerContext& context, BackwardRows kept,
                                        const at::Tensor& dy_TH, WeightGradients& weights);

}  // namespace slimpack
