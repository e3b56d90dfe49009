// Vectors of the processor: one body of code, compiled for several generations of processors and
// chosen when it runs, and the exponential function of sixteen numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

#if defined(__x86_64__)
/// Calls f(arguments…), compiled for the widest vectors that the processor has. REQUIRES: f is
/// always_inline, as are the functions that it calls with Lanes.
template <class F, class... Arguments>
[[gnu::target("avx512f,avx512bw,avx512dq,fma")]] void with_avx512(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
template <class F, class... Arguments>
[[gnu::target("avx2,fma")]] void with_avx2(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
template <class F, class... Arguments>
void with_widest_simd(const F& f, Arguments&&... a) {
  static const bool avx512 = __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq");
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512) return with_avx512(f, std::forward<Arguments>(a)...);
  if (avx2) return with_avx2(f, std::forward<Arguments>(a)...);
  f(std::forward<Arguments>(a)...);
}
#else
template <class F, class... Arguments>
void with_widest_simd(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
#endif

/// e^x within 2 units in the last place; 0 below −87.3. REQUIRES: x ≤ 88.
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, and e^r is a polynomial (Cephes' expf).
[[gnu::always_inline]] inline void exp_lanes(Lanes<float>& x) {
  const auto is_zero = x < -87.3F;
  // Adding this pushes the fraction out of the number, so that n is left in its lowest bits.
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23
  const Lanes<float> shifted = x * 1.44269504088896341F + kRound;
  const Lanes<float> n = shifted - kRound;
  const Lanes<float> r = x - n * 0.693359375F + n * 2.12194440e-4F;
  Lanes<float> p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // 2^n: n goes to the exponent's bits.
  const auto exponent = reinterpret_cast<Lanes<std::uint32_t>>(shifted) << 23U;
  const auto bits = reinterpret_cast<Lanes<std::uint32_t>>(p) + exponent;
  const auto keep = ~reinterpret_cast<Lanes<std::uint32_t>>(is_zero);
  x = reinterpret_cast<Lanes<float>>(bits & keep);
}

[[gnu::always_inline]] inline void exp_lanes(Lanes<double>& x) {
  for (int i = 0; i < kLanes; ++i) x[i] = std::exp(x[i]);
}

}  // namespace slimpack
