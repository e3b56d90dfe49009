// Eight values of bf16 or fp32 at once, and fast functions: for nvcc and for the host's compiler.
//
// Eight values of bf16 are 16 bytes, what a lane loads and stores at once.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "slimpack/packflow/fused/launchers.h"

#ifdef __CUDACC__
#define SLIMPACK_DEVICE __device__ __forceinline__
#define SLIMPACK_WAY threads
#else
#define SLIMPACK_DEVICE inline
#define SLIMPACK_WAY loops
#endif

// A program may have both: the two ways have names of their own.
namespace slimpack::fused::inline SLIMPACK_WAY {

struct alignas(16) Bf16x8 {
  std::uint32_t pair[4];  ///< the first of two values in the lower half
};

struct Float8 {
  float value[8];
};

SLIMPACK_DEVICE float as_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
#endif
}

/// Two values rounded to the nearest, ties to even.
SLIMPACK_DEVICE std::uint32_t rounded(float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  const auto half = [](float value) -> std::uint32_t {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (std::isnan(value)) return 0x7fff;
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  };
  return half(first) | half(second) << 16;
#endif
}

SLIMPACK_DEVICE float rounded(float value) {
  return as_float(rounded(0, value) & 0xffff0000u);
}

SLIMPACK_DEVICE Float8 widened(const Bf16x8& x) {
  Float8 wide;
  for (int i = 0; i < 4; ++i) {
    wide.value[2 * i] = as_float(x.pair[i] << 16);
    wide.value[2 * i + 1] = as_float(x.pair[i] & 0xffff0000u);
  }
  return wide;
}

SLIMPACK_DEVICE Bf16x8 rounded(const Float8& x) {
  Bf16x8 narrow;
  for (int i = 0; i < 4; ++i) narrow.pair[i] = rounded(x.value[2 * i], x.value[2 * i + 1]);
  return narrow;
}

/// Vector `i` of an array that is aligned to 16 bytes.
SLIMPACK_DEVICE Bf16x8 load8(const Bf16* array, std::int64_t i) {
#ifdef __CUDA_ARCH__
  const uint4 x = reinterpret_cast<const uint4*>(array)[i];
  return {{x.x, x.y, x.z, x.w}};
#else
  return reinterpret_cast<const Bf16x8*>(array)[i];
#endif
}

SLIMPACK_DEVICE void store8(Bf16* array, std::int64_t i, const Bf16x8& x) {
#ifdef __CUDA_ARCH__
  reinterpret_cast<uint4*>(array)[i] = make_uint4(x.pair[0], x.pair[1], x.pair[2], x.pair[3]);
#else
  reinterpret_cast<Bf16x8*>(array)[i] = x;
#endif
}

SLIMPACK_DEVICE Float8 load8(const float* array, std::int64_t i) {
  Float8 x;
#ifdef __CUDA_ARCH__
  for (int half = 0; half < 2; ++half) {
    const float4 four = reinterpret_cast<const float4*>(array)[2 * i + half];
    for (int e = 0; e < 4; ++e) x.value[4 * half + e] = (&four.x)[e];
  }
#else
  std::memcpy(x.value, array + 8 * i, sizeof x);
#endif
  return x;
}

SLIMPACK_DEVICE void store8(float* array, std::int64_t i, const Float8& x) {
#ifdef __CUDA_ARCH__
  for (int half = 0; half < 2; ++half) {
    const float* v = x.value + 4 * half;
    reinterpret_cast<float4*>(array)[2 * i + half] = make_float4(v[0], v[1], v[2], v[3]);
  }
#else
  std::memcpy(array + 8 * i, x.value, sizeof x);
#endif
}

// Fast functions: relative errors of about 2⁻²²; bf16 has 2⁻⁸.

constexpr float kLog2E = 1.44269504088896341f;

SLIMPACK_DEVICE float exp2_fast(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

SLIMPACK_DEVICE float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

SLIMPACK_DEVICE float sigmoid(float x) {
  return quotient(1, 1 + exp2_fast(-x * kLog2E));
}

}  // namespace slimpack::fused::inline SLIMPACK_WAY
