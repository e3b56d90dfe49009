// Launchers of the fused kernels: over addresses, sizes and a queue, without libtorch. The same
// source (launchers.cu) is compiled by nvcc for GPUs and by the host's compiler as loops.
//
// Widths are multiples of 8, addresses of 16 bytes, arrays contiguous unless they have strides. A
// launcher returns a cudaError_t: 0, or why nothing was launched (1, cudaErrorInvalidValue: sizes
// or addresses that the kernels do not know). Names end in the letters of device/tensor.h.
#pragma once

#include <cstdint>

namespace slimpack::fused {

struct Bf16 {
  std::uint16_t bits;
};

/// The stream and device on which a kernel runs. Loops ignore them.
struct Queue {
  void* stream = nullptr;  ///< a cudaStream_t
  int device = 0;
};

/// Heads of the same rows; strides are counted in elements and are multiples of 8.
struct HeadRows {
  Bf16* data;  ///< null = there are none
  std::int64_t row_stride, head_stride;
};

struct RopeArguments {
  HeadRows from_q, from_k, from_v;  ///< only read
  HeadRows to_q, to_k, to_v;        ///< may be the same memory
  const Bf16 *cos_TP, *sin_TP;      ///< P = D/2, the angles of a row
  std::int64_t angle_stride;        ///< from row to row
  std::int64_t rows;
  int q_heads, k_heads, head_dim;  ///< N, G, D: a multiple of 16
  float sign;                      ///< −1 turns back
};

/// Heads with norms are at most so wide.
inline constexpr int kWidestNormedHead = 512;

struct NormedRopeArguments {
  RopeArguments rope;       ///< of sign 1
  HeadRows kept_q, kept_k;  ///< get q and k as they were; or null
  const Bf16 *q_weight_D, *k_weight_D;
  float eps;
};

struct NormedRopeBackwardArguments {
  RopeArguments rope;  ///< of sign −1, from the gradients of what is rotated
  HeadRows q, k;       ///< before the norms
  const Bf16 *q_weight_D, *k_weight_D;
  float *dq_weight_BD, *dk_weight_BD;  ///< a sum for each of the blocks
  float eps;
  std::int64_t q_blocks, k_blocks;
};

struct RmsNormBackwardArguments {
  const Bf16 *dy_TH, *x_TH, *weight_H;
  const Bf16* residual_TH;  ///< gradient of x on the way past the norm; or null
  Bf16* dx_TH;              ///< may be any input of its shape
  Bf16* y_TH;               ///< the same; null = not wanted
  float* dweight_BH;        ///< a sum for each of the blocks
  float eps;
  std::int64_t blocks, rows, width;
};

/// One way to run the kernels. Comments at the bodies say what the kernels compute.
struct Launchers {
  int (*swiglu)(Queue, const Bf16* gate_up_TO, Bf16* act_TF, std::int64_t rows, std::int64_t width);
  /// `d_gate_up_TO` may be `gate_up_TO`, `act_TF` may be `dact_TF`.
  int (*swiglu_backward)(Queue, const Bf16* dact_TF, const Bf16* gate_up_TO, Bf16* d_gate_up_TO,
                         Bf16* act_TF, std::int64_t rows, std::int64_t width);
  int (*rms_norm)(Queue, const Bf16* x_TH, const Bf16* weight_H, Bf16* y_TH, float eps,
                  std::int64_t rows, std::int64_t width);
  int (*rms_norm_backward)(Queue, const RmsNormBackwardArguments&);
  /// How many blocks fill the device; negative where no kernel knows the width.
  std::int64_t (*rms_norm_blocks)(int device, std::int64_t width);
  int (*add_columns)(Queue, const float* addends_BH, float* sum_H, std::int64_t blocks,
                     std::int64_t width);
  int (*cross_entropy)(Queue, const Bf16* logits_TV, const std::int64_t* targets_T,
                       std::int64_t from, float* lse_T, float* target_T, std::int64_t rows,
                       std::int64_t width);
  int (*cross_entropy_backward)(Queue, Bf16* logits_TV, const std::int64_t* targets_T,
                                std::int64_t from, const float* lse_T, const float* weight_T,
                                std::int64_t rows, std::int64_t width);
  int (*rope)(Queue, const RopeArguments&);
  int (*normed_rope)(Queue, const NormedRopeArguments&);
  int (*normed_rope_backward)(Queue, const NormedRopeBackwardArguments&);
  /// How many blocks of normed_rope_backward fill the device.
  std::int64_t (*normed_rope_blocks)(int device);
};

/// The kernels of CUDA devices; null where the build has none, because it found no nvcc.
[[nodiscard]] const Launchers* cuda_launchers();
/// The loops, in memory of the host. Programs that are not compiled with them lack this function.
[[nodiscard]] const Launchers& loop_launchers();

}  // namespace slimpack::fused
