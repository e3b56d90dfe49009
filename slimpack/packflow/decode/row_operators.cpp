#include "slimpack/packflow/decode/row_operators.h"

#include <cmath>

#include "slimpack/packflow/decode/simd.h"

namespace slimpack {
namespace {

template <class Input>
struct NormRows {
  [[gnu::always_inline]] void operator()(RowsView<const Sum<Input>> x, std::int64_t width,
                                         const Sum<Input>* weight, double eps,
                                         RowsView<Input> out) const {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const Sum<Input>* const row = x.row(r);
      Lanes<Sum<Input>> squares = {};
      std::int64_t i = 0;
      for (; i + kLanes <= width; i += kLanes) {
        const auto part = *reinterpret_cast<const Lanes<Sum<Input>>*>(row + i);
        squares += part * part;
      }
      Sum<Input> sum = 0;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) sum += squares[lane];
      for (; i < width; ++i) sum += row[i] * row[i];
      const auto scale = static_cast<Sum<Input>>(
          1 / std::sqrt(static_cast<double>(sum) / static_cast<double>(width) + eps));
      for (std::int64_t c = 0; c < width; ++c)
        out.row(r)[c] = static_cast<Input>(row[c] * scale * weight[c]);
    }
  }
};

/// silu(gate) ⊙ up; both are overwritten.
template <class T>
[[gnu::always_inline]] inline void gate_lanes(Lanes<T>& gate, const Lanes<T>& up) {
  Lanes<T> e = -gate;
  e = e > 80 ? Lanes<T>{} + 80 : e;  // silu is 0 there in fp32, and the exponential would overflow
  exp_lanes(e);
  gate = gate / (1 + e) * up;
}

template <class Input>
struct GateRows {
  [[gnu::always_inline]] void operator()(RowsView<const Sum<Input>> gate_up, std::int64_t width,
                                         RowsView<Input> out) const {
    using T = Sum<Input>;
    for (std::int64_t r = 0; r < gate_up.rows; ++r) {
      for (std::int64_t c = 0; c < width; c += kLanes) {
        const std::int64_t count = std::min(kLanes, width - c);
        Lanes<T> gate = {}, up = {};
        if (count == kLanes) {
          gate = *reinterpret_cast<const Lanes<T>*>(gate_up.row(r) + c);
          up = *reinterpret_cast<const Lanes<T>*>(gate_up.row(r) + width + c);
        } else {
          for (std::int64_t i = 0; i < count; ++i) {
            gate[i] = gate_up.row(r)[c + i];
            up[i] = gate_up.row(r)[width + c + i];
          }
        }
        gate_lanes<T>(gate, up);
        for (std::int64_t i = 0; i < count; ++i) out.row(r)[c + i] = static_cast<Input>(gate[i]);
      }
    }
  }
};

}  // namespace

template <class Input>
void norm_rows(RowsView<const Sum<Input>> x, std::int64_t width, const Sum<Input>* weight,
               double eps, RowsView<Input> out) {
  with_widest_simd(NormRows<Input>{}, x, width, weight, eps, out);
}
template <class Input>
void gate_rows(RowsView<const Sum<Input>> gate_up, std::int64_t width, RowsView<Input> out) {
  with_widest_simd(GateRows<Input>{}, gate_up, width, out);
}

template <class T>
void add_bias(RowsView<T> x, std::int64_t width, const T* bias) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < width; ++c) x.row(r)[c] += bias[c];
}

template <class T>
void rotate_heads(T* x, std::int64_t heads, std::int64_t head_dim, RopeAngles<T> angles) {
  const std::int64_t half = head_dim / 2;
  for (T* head = x; head < x + heads * head_dim; head += head_dim) {
    for (std::int64_t i = 0; i < half; ++i) {
      const T a = head[i], b = head[i + half];
      head[i] = a * angles.cos[i] - b * angles.sin[i];
      head[i + half] = b * angles.cos[i] + a * angles.sin[i];
    }
  }
}

template void norm_rows(RowsView<const double>, std::int64_t, const double*, double,
                        RowsView<double>);
template void norm_rows(RowsView<const float>, std::int64_t, const float*, double, RowsView<float>);
template void norm_rows(RowsView<const float>, std::int64_t, const float*, double,
                        RowsView<c10::BFloat16>);
template void gate_rows(RowsView<const double>, std::int64_t, RowsView<double>);
template void gate_rows(RowsView<const float>, std::int64_t, RowsView<float>);
template void gate_rows(RowsView<const float>, std::int64_t, RowsView<c10::BFloat16>);
template void add_bias(RowsView<double>, std::int64_t, const double*);
template void add_bias(RowsView<float>, std::int64_t, const float*);
template void rotate_heads(double*, std::int64_t, std::int64_t, RopeAngles<double>);
template void rotate_heads(float*, std::int64_t, std::int64_t, RopeAngles<float>);

}  // namespace slimpack
