// The MLP of a layer with experts: a router sends each row to K of them, and the results are summed
// by the router's weights.
//
// Forward:
//   1. The router's probabilities over all experts, in the accumulate type; the K largest are the
//      row's choice.
//   2. Pairs of a row and one of its experts, sorted by expert; gate and up, silu(gate) ⊙ up, and
//      down are products of the pairs (kernels/grouped_linear.h).
//   3. silu(gate) ⊙ up is multiplied by the pair's weight before down. So backward finds the
//      gradient of that weight without down's results.
// Rows that backward keeps lie row by row, since its MicroPacks gather them from several forward
// ones. The choice is kept under every policy: chosen again, it might fall the other way on a tie.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "slimpack/packflow/layer/layer_parts.h"
#include "slimpack/packflow/layer/weight_gradients.h"
#include "slimpack/packflow/stores/layer_rows.h"

namespace slimpack {

/// The residual after attention plus the MLP of it. Adds the MLP's rows that the policy keeps.
[[nodiscard]] at::Tensor experts_forward(const LayerContext& c, LayerRows& rows);

/// Gradients of the outputs of the maps that take the normalised residual: gate and up of all
/// experts, and the router. Leaves the gradients of down to `weights`.
[[nodiscard]] std::vector<NormedMap> experts_backward(const LayerContext& c, BackwardRows& rows,
                                                      const at::Tensor& dy_TH,
                                                      WeightGradients& weights);

}  // namespace slimpack
