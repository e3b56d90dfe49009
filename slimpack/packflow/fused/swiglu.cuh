// SwiGLU: act = silu(gate) ⊙ up; gate and up are the halves of a row.
#pragma once

#include "slimpack/packflow/fused/block.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

/// 6 bytes an element of F.
struct Swiglu {
  const Bf16* gate_up_TO;  ///< [T, 2F]
  Bf16* act_TF;
  int width;  ///< F

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const Bf16* gate = gate_up_TO + block.index() * 2 * width;
    Bf16* act = act_TF + block.index() * width;
    block.each(width / 8, [&](int i) {
      const Float8 g = widened(load8(gate, i)), u = widened(load8(gate + width, i));
      Float8 y;
      // Hugging Face rounds silu(gate) before up multiplies it.
      for (int e = 0; e < 8; ++e)
        y.value[e] = rounded(g.value[e] * sigmoid(g.value[e])) * u.value[e];
      store8(act, i, rounded(y));
    });
  }
};

/// Gradients of gate and up, and act again: 12 bytes an element of F.
struct SwigluBackward {
  const Bf16* dact_TF;
  const Bf16* gate_up_TO;
  Bf16* d_gate_up_TO;
  Bf16* act_TF;
  int width;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const std::int64_t row = block.index();
    const Bf16 *gate = gate_up_TO + row * 2 * width, *dact = dact_TF + row * width;
    Bf16 *d_gate = d_gate_up_TO + row * 2 * width, *act = act_TF + row * width;
    block.each(width / 8, [&](int i) {
      const Float8 g = widened(load8(gate, i)), u = widened(load8(gate + width, i));
      const Float8 dy = widened(load8(dact, i));
      Float8 dg, du, y;
      for (int e = 0; e < 8; ++e) {
        const float s = sigmoid(g.value[e]), silu = rounded(g.value[e] * s);
        y.value[e] = silu * u.value[e];
        du.value[e] = silu * dy.value[e];
        dg.value[e] = dy.value[e] * u.value[e] * s * (1 + g.value[e] * (1 - s));
      }
      store8(d_gate, i, rounded(dg));
      store8(d_gate + width, i, rounded(du));
      store8(act, i, rounded(y));
    });
  }
};

}  // namespace slimpack::fused::inline SLIMPACK_WAY
