// Bytes that the operators of a step read and write for each token: what a GPU's memory bounds.
#pragma once

#include "slimpack/spec/decoder.h"
#include "slimpack/spec/recompute.h"
#include "tests/operators/operator_counts.h"

namespace slimpack {

/// Bytes of one token by the operator's kind. Fusing removes those of `elementwise` alone: norms,
/// activations, rope, copies and the loss.
struct KindBytes {
  double elementwise = 0, products = 0, attention = 0;
};

struct LayerBytes {
  KindBytes forward, backward;
};

/// `block`: what each block of rows that the head runs in moves besides, in proportion to the
/// vocabulary: its matrix and the sums of its gradient.
struct HeadBytes {
  KindBytes token, block;
};

/// Bytes of one decoder layer under `recompute`, and of last norm, head and loss in both passes.
/// They count a step of whole documents of a model of `shape` in bf16 on the pretended device.
/// Differences between layers and between documents leave what grows with both, so weights do not
/// count for a token. Take seconds, and memory for two layers of the model.
[[nodiscard]] LayerBytes count_layer_bytes(const Decoder& shape, Recompute recompute);
[[nodiscard]] HeadBytes count_head_bytes(const Decoder& shape);

}  // namespace slimpack
