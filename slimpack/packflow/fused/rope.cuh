// Rotary embedding: (a, b) → (a cos − b sin, b cos + a sin) on the halves of a head.
#pragma once

#include "slimpack/packflow/fused/block.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

/// Eight values of each half of a head: those that turn together.
struct Bf16Halves {
  Bf16x8 first, second;
};
struct Halves {
  Float8 first, second;
};

SLIMPACK_DEVICE Bf16* head_of(const HeadRows& rows, std::int64_t row, int head) {
  return rows.data + row * rows.row_stride + head * rows.head_stride;
}

/// Vectors `i` of the halves of a head, or of a weight that is as wide.
SLIMPACK_DEVICE Bf16Halves load_halves(const Bf16* head, int half, int i) {
  return {load8(head, i), load8(head + half, i)};
}

SLIMPACK_DEVICE void store_halves(Bf16* head, int half, int i, const Bf16Halves& x) {
  store8(head, i, x.first);
  store8(head + half, i, x.second);
}

SLIMPACK_DEVICE Halves widened(const Bf16Halves& x) {
  return {widened(x.first), widened(x.second)};
}

SLIMPACK_DEVICE Bf16Halves rounded(const Halves& x) {
  return {rounded(x.first), rounded(x.second)};
}

/// Vectors `i` of a head of the row, turned.
SLIMPACK_DEVICE Halves turned(const Halves& x, const RopeArguments& a, std::int64_t row, int i) {
  const Float8 cos = widened(load8(a.cos_TP + row * a.angle_stride, i));
  const Float8 sin = widened(load8(a.sin_TP + row * a.angle_stride, i));
  Halves y;
  for (int e = 0; e < 8; ++e) {
    const float sine = a.sign * sin.value[e];
    y.first.value[e] = x.first.value[e] * cos.value[e] - x.second.value[e] * sine;
    y.second.value[e] = x.second.value[e] * cos.value[e] + x.first.value[e] * sine;
  }
  return y;
}

/// Rotates q and k and copies v: from one tensor to three in the forward pass, back into one in the
/// backward pass, with sign −1. 4 bytes an element.
struct Rope {
  RopeArguments arguments;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const RopeArguments& a = arguments;
    const std::int64_t row = block.index();
    const int half = a.head_dim / 2, in_half = half / 8, in_head = 2 * in_half;  // vectors
    const int pairs = (a.q_heads + a.k_heads) * in_half;
    const int copies = a.to_v.data == nullptr ? 0 : a.k_heads * in_head;
    block.each(pairs + copies, [&](int item) {
      if (item >= pairs) {
        const int head = (item - pairs) / in_head, i = (item - pairs) % in_head;
        store8(head_of(a.to_v, row, head), i, load8(head_of(a.from_v, row, head), i));
        return;
      }
      const int i = item % in_half, head = item / in_half;
      const bool is_q = head < a.q_heads;
      const int own_head = is_q ? head : head - a.q_heads;
      const Bf16* x = head_of(is_q ? a.from_q : a.from_k, row, own_head);
      Bf16* y = head_of(is_q ? a.to_q : a.to_k, row, own_head);
      store_halves(y, half, i, rounded(turned(widened(load_halves(x, half, i)), a, row, i)));
    });
  }
};

}  // namespace slimpack::fused::inline SLIMPACK_WAY
