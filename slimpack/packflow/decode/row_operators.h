// The operators that a decoder layer runs on rows between its matrix products. Results do not
// depend on how many rows there are.
#pragma once

#include <cstdint>

#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

/// x / rms(x) ⊙ weight of the first `width` elements of each row (kernels/rms_norm.h).
template <class Input>
void norm_rows(RowsView<const Sum<Input>> x, std::int64_t width, const Sum<Input>* weight,
               double eps, RowsView<Input> out);

/// silu(gate) ⊙ up of gate and up side by side, `width` elements each.
template <class Input>
void gate_rows(RowsView<const Sum<Input>> gate_up, std::int64_t width, RowsView<Input> out);

/// Adds the bias to each row; nothing where it is null.
template <class T>
void add_bias(RowsView<T> x, std::int64_t width, const T* bias);

/// cos and sin of one position: D/2 each.
template <class T>
struct RopeAngles {
  const T* cos;
  const T* sin;
};

/// Rotates `heads` heads of D elements that lie side by side (kernels/rope.h).
template <class T>
void rotate_heads(T* x, std::int64_t heads, std::int64_t head_dim, RopeAngles<T> angles);

}  // namespace slimpack
