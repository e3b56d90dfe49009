// Fused kernels: the elementwise parts of a training step, each of them one pass over memory and
// one launch. They are operators of libtorch's dispatcher (slimpack::swiglu, …), which chooses them
// by device: CUDA has them where the build found nvcc, others where a program registers them
// (implement). docs/devices.md says what a GPU has run.
//
// Tensors are bf16 unless said otherwise, contiguous, on one device, at addresses that are
// multiples of 16 bytes, with widths that are multiples of 8. takes_…() say whether that holds;
// every other function REQUIRES it. An operator writes to no memory but its results and the
// arguments whose names follow "to".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/fused/launchers.h"

namespace torch {
class Library;
}

namespace slimpack::fused {

/// Whether there are fused kernels for bf16 on this device.
[[nodiscard]] bool are_there_on(at::Device device);
/// Whether there are fused kernels for the tensor, where it lies.
[[nodiscard]] bool are_there_for(const at::Tensor& like);

/// Whether the kernels take these rows: of SwiGLU or of logits.
[[nodiscard]] bool takes_rows(const at::Tensor& rows);

/// silu(gate) ⊙ up to `act_TF`; gate and up lie side by side.
void swiglu(const at::Tensor& gate_up_TO, const at::Tensor& act_TF);
/// The gradients of gate and up to `d_gate_up_TO`. `dact_TF` becomes silu(gate) ⊙ up.
void swiglu_backward(const at::Tensor& dact_TF, const at::Tensor& gate_up_TO,
                     const at::Tensor& d_gate_up_TO);

/// Whether the kernels take these rows, at most 8,192 wide, with this weight.
[[nodiscard]] bool takes_norm(const at::Tensor& x_TH, const at::Tensor& weight_H);
/// n ⊙ weight.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x_TH, const at::Tensor& weight_H, double eps);

/// Operands of a norm's backward.
struct NormBackward {
  const at::Tensor& x_TH;
  const at::Tensor& weight_H;
  const at::Tensor& residual_TH;  ///< added to dx; may be undefined
  double eps;
};
/// `dy_TH` becomes dx + residual. n ⊙ weight goes to `y_TH` unless that is undefined, and Σ dy ⊙ n
/// is added to `dweight_H` (fp32), in an order that depends on sizes and on the device alone.
void rms_norm_backward(const at::Tensor& dy_TH, const NormBackward& norm, const at::Tensor& y_TH,
                       const at::Tensor& dweight_H);

/// A block of rows: the log-sum-exp of the columns and the target's logit (0 if that is not
/// here). Fp32.
struct TargetLogits {
  at::Tensor lse_T1;
  at::Tensor target_T1;
};
/// `targets_T`: columns of the whole vocabulary (int64), of which the logits are those from `from`
/// on.
[[nodiscard]] TargetLogits cross_entropy(const at::Tensor& logits_TV, const at::Tensor& targets_T,
                                         std::int64_t from);
/// The logits become the gradient of Σ weight (lse − target); `lse_T1` and `weight_T1` are fp32. A
/// row of weight 0 becomes zeros, whatever it holds.
void cross_entropy_backward(const at::Tensor& logits_TV, const at::Tensor& targets_T,
                            std::int64_t from, const at::Tensor& lse_T1,
                            const at::Tensor& weight_T1);

/// Heads of the same rows, [T, heads, D] each; only the last dimension is contiguous.
struct Heads {
  at::Tensor q_TND, k_TGD;
  at::Tensor v_TGD;  ///< may be undefined
};
/// cos and sin of the rows' angles, [T, 1, D/2].
struct Angles {
  const at::Tensor& cos;
  const at::Tensor& sin;
};
/// Whether the kernel takes these heads: D is a multiple of 16.
[[nodiscard]] bool takes_heads(const Heads& from, const Angles& angles, const Heads& to);
/// q and k turned by their angles times `sign` (1 or −1) and v as it is, if both have it, to `to`.
void rope(const Heads& from, const Angles& angles, double sign, const Heads& to);

/// Weights of the norms of each head of q and k, which models with q/k norms have before rope.
struct HeadNorms {
  const at::Tensor& q_weight_D;
  const at::Tensor& k_weight_D;
  double eps;
};
/// Whether the kernels take these heads, at most 512 wide, wherever takes_heads().
[[nodiscard]] bool takes_normed_heads(const Heads& heads, const HeadNorms& norms);
/// Is rope() of q and k after their norms; k and v may be undefined. Where `kept` has q or k, they
/// are copied there as they were.
void normed_rope(const Heads& from, const Angles& angles, const HeadNorms& norms, const Heads& to,
                 const Heads& kept);

/// Gradients of the weights (fp32).
struct NormGradients {
  const at::Tensor& q_D;
  const at::Tensor& k_D;
};
/// Gradients of q and k before their norms, and that of v, from those of normed_rope()'s results.
/// `before`: q and k. Σ dy ⊙ n is added to `sums`, in an order that depends on sizes and on the
/// device alone.
void normed_rope_backward(const Heads& gradients, const Angles& angles, const HeadNorms& norms,
                          const Heads& before, const Heads& to, const NormGradients& sums);

/// Registers kernels for a device's operators. `library` belongs to the namespace "slimpack" and to
/// the device's dispatch key.
void implement(torch::Library& library, const Launchers& launchers);

}  // namespace slimpack::fused
