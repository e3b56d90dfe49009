// The interface of libslimpack_fa4.so: attention by FlashAttention-4's Hopper kernels, compiled
// ahead of time (tools/fa4). The engine opens the library at run time; both sides include this file
// alone, which needs nothing of CUDA.
//
// bf16; B sequences end to end. Causal: the mask is aligned at the end of each sequence, whose last
// query sees all of its keys; so its queries may be the last part of a longer sequence. T queries
// and S keys in all, N query heads, G key heads, N = group · G.
//
// Calls launch on `stream`, a cudaStream_t of the current device, and return a cudaError_t: 0,
// cudaErrorInvalidValue where a tensor is not as required here, or why a launch failed.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Counts up with every change of this file.
#define SLIMPACK_FA4_INTERFACE 1

/// [rows, heads, D] bf16. REQUIRES: D contiguous; strides (in elements) multiples of 8; data
/// aligned to 16 bytes.
typedef struct {
  void* data;
  int32_t rows, heads;
  int64_t row_stride, head_stride;
} Fa4Rows;

/// [heads, columns] fp32, columns contiguous.
typedef struct {
  void* data;
  int32_t heads, columns;
  int64_t head_stride;
} Fa4Columns;

/// [B + 1] int32 on the device: the row where each sequence begins, and the end of the last.
typedef struct {
  const void* data;
  int32_t count;
} Fa4Bounds;

typedef struct {
  Fa4Rows q, k, v;  ///< [T, N, D], [S, G, D], [S, G, D]
  Fa4Rows out;      ///< [T, N, D]
  Fa4Columns lse;  ///< [N, T]: log Σ exp(scale · q·k), natural; −∞ where a query sees no key
  float scale;     ///< of the products: 1/√D
  Fa4Bounds q_bounds, k_bounds;
} Fa4Attention;

typedef struct {
  Fa4Rows dout;                           ///< [T, N, D]
  Fa4Rows dq, dk, dv;                     ///< like q, k, v; overwritten
  int32_t fixed_order;                    ///< whether sums have one order: the same bits every time
  int32_t longest_queries, longest_keys;  ///< rows of one sequence; read where the order is fixed
} Fa4Gradients;

typedef struct Fa4Kernels Fa4Kernels;

typedef struct {
  int32_t version;       ///< SLIMPACK_FA4_INTERFACE of its build; the rest is read if it is ours
  const char* packages;  ///< what the kernels were compiled with
  /// The kernels of a shape; null where they were not compiled.
  const Fa4Kernels* (*find)(int32_t head_dim, int32_t group, int32_t causal);
  /// Whether the current device has the architecture that the kernels were compiled for.
  int32_t (*runs_here)(void);
  /// Loads kernels for the current device: before its first call, not during a capture. Later
  /// calls do nothing.
  int32_t (*load)(const Fa4Kernels* kernels);
  /// Writes out and lse. REQUIRES: T, S > 0.
  int32_t (*forward)(const Fa4Kernels* kernels, const Fa4Attention* a, void* stream);
  /// Bytes of memory that backward needs besides.
  int64_t (*workspace_bytes)(const Fa4Kernels* kernels, const Fa4Attention* a,
                             const Fa4Gradients* d);
  /// Gradients through these keys, given out and lse over all keys. REQUIRES: T, S > 0; `workspace`
  /// aligned to 256 bytes, with any content.
  int32_t (*backward)(const Fa4Kernels* kernels, const Fa4Attention* a, const Fa4Gradients* d,
                      void* workspace, void* stream);
  const char* (*error_text)(int32_t error);
} Fa4Functions;

/// The library's only symbol.
const Fa4Functions* slimpack_fa4(void);

#ifdef __cplusplus
}
#endif
