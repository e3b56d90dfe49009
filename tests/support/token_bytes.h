// Bytes of one token in one layer.
#pragma once

#include "slimpack/cost/layer_memory.h"

namespace slimpack::testing {

/// Bytes of a token in one layer that forward keeps on the device for backward.
[[nodiscard]] inline Bytes row_bytes(const Decoder& shape, Dtype dtype,
                                     Recompute recompute = Recompute::kElementwise) {
  return Bytes(LayerWidths(shape.kinds[0], dtype).kept(recompute));
}

/// K and V, and their gradients' accumulators.
[[nodiscard]] inline Bytes kv_bytes(const Decoder& shape, Dtype dtype) {
  return Bytes(2 * LayerWidths(shape.kinds[0], dtype).k);
}
[[nodiscard]] inline Bytes dkv_bytes(const Decoder& shape, Dtype dtype) {
  return Bytes(LayerWidths(shape.kinds[0], dtype).gradients());
}

}  // namespace slimpack::testing
