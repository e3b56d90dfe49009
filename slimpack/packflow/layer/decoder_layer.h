// One decoder layer on a MicroPack: linear parts on all rows at once, attention slice by slice.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/layer/layer_parts.h"
#include "slimpack/packflow/layer/weight_gradients.h"
#include "slimpack/packflow/stores/layer_rows.h"
#include "slimpack/packflow/stores/row_store.h"

namespace slimpack {

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
