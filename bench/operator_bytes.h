// Bytes that the operators of a step read and write for each token: what a GPU's memory bounds.
#pragma once

#include "bench/operator_counts.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// Bytes of one token by the operator's kind. Fusing removes those of `elementwise` alone: norms,
/// activations, rope, copies and the loss.
struct KindBytes {
  double elementwise = 0, products = 0, attention = 0;
};

struct TokenBytes {
  KindBytes layer_forward, layer_backward;  ///< of one decoder layer
  KindBytes head;                           ///< last norm, head and loss, both passes
};

/// Counts steps of whole documents of a model of `shape` in bf16 on the pretended device, under
/// `recompute`. Differences between layers and between lengths leave what grows with both, so
/// weights do not count. Takes seconds, and memory for two layers of the model.
[[nodiscard]] TokenBytes count_token_bytes(const ModelShape& shape, Recompute recompute);

}  // namespace slimpack
