// The launchers of one way: compiled by nvcc those of CUDA devices, by another compiler the loops.
#include "slimpack/packflow/fused/launchers.h"

#include <algorithm>
#include <limits>

#include "slimpack/packflow/fused/cross_entropy.cuh"
#include "slimpack/packflow/fused/normed_rope.cuh"
#include "slimpack/packflow/fused/rms_norm.cuh"
#include "slimpack/packflow/fused/rope.cuh"
#include "slimpack/packflow/fused/swiglu.cuh"

namespace slimpack::fused {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue
// Lanes of a block, and blocks of a multiprocessor, where they do not depend on the width.
constexpr int kRowLanes = 256, kRowBlocks = 6;
constexpr int kVocabularyLanes = 512, kVocabularyBlocks = 3;
constexpr int kSmallLanes = 128, kSmallBlocks = 8, kNormedBlocks = 5;

template <class... Data>
bool are_aligned(const Data*... data) {
  return ((reinterpret_cast<std::uintptr_t>(data) % 16 == 0) && ...);
}

template <class... Rows>
bool are_valid(const Rows&... rows) {
  return ((rows.row_stride % 8 == 0 && rows.head_stride % 8 == 0 && are_aligned(rows.data)) && ...);
}

/// start<lanes, vectors a lane, blocks a multiprocessor>() for norms of this width, or `none`.
template <class Result, class Start>
Result for_width(std::int64_t width, Result none, Start start) {
  if (width % 8 != 0 || width < 8) return none;
  if (width <= 8 * 32) return start.template operator()<32, 1, 16>();
  if (width <= 8 * 128) return start.template operator()<128, 1, 8>();
  if (width <= 8 * 256) return start.template operator()<128, 2, 6>();
  if (width <= 8 * 512) return start.template operator()<256, 2, 3>();
  if (width <= 8 * 1024) return start.template operator()<512, 2, 1>();
  return none;
}

int swiglu(Queue queue, const Bf16* gate_up_TO, Bf16* act_TF, std::int64_t rows,
           std::int64_t width) {
  if (width % 8 != 0 || !are_aligned(gate_up_TO, act_TF)) return kInvalidValue;
  return launch<kRowLanes, kRowBlocks>(rows, queue,
                                       Swiglu{gate_up_TO, act_TF, static_cast<int>(width)});
}

int swiglu_backward(Queue queue, const Bf16* dact_TF, const Bf16* gate_up_TO, Bf16* d_gate_up_TO,
                    Bf16* act_TF, std::int64_t rows, std::int64_t width) {
  if (width % 8 != 0 || !are_aligned(dact_TF, gate_up_TO, d_gate_up_TO, act_TF))
    return kInvalidValue;
  return launch<kRowLanes, kRowBlocks>(
      rows, queue,
      SwigluBackward{dact_TF, gate_up_TO, d_gate_up_TO, act_TF, static_cast<int>(width)});
}

int rms_norm(Queue queue, const Bf16* x_TH, const Bf16* weight_H, Bf16* y_TH, float eps,
             std::int64_t rows, std::int64_t width) {
  if (!are_aligned(x_TH, weight_H, y_TH)) return kInvalidValue;
  return for_width(width, kInvalidValue, [&]<int kLanes, int kKept, int kBlocks>() {
    return launch<kLanes, kBlocks>(
        rows, queue, RmsNorm<kKept>{x_TH, weight_H, y_TH, static_cast<int>(width), eps});
  });
}

int rms_norm_backward(Queue queue, const RmsNormBackwardArguments& a) {
  if (!are_aligned(a.dy_TH, a.x_TH, a.weight_H, a.residual_TH, a.dx_TH, a.y_TH, a.dweight_BH))
    return kInvalidValue;
  return for_width(a.width, kInvalidValue, [&]<int kLanes, int kKept, int kBlocks>() {
    return launch<kLanes, kBlocks>(a.blocks, queue, RmsNormBackward<kKept>{a});
  });
}

std::int64_t rms_norm_blocks(int device, std::int64_t width) {
  return for_width(width, std::int64_t{-1},
                   [&]<int, int, int kBlocks>() { return multiprocessors(device) * kBlocks; });
}

int add_columns(Queue queue, const float* addends_BH, float* sum_H, std::int64_t blocks,
                std::int64_t width) {
  if (width % 8 != 0 || !are_aligned(addends_BH, sum_H)) return kInvalidValue;
  return launch<kSmallLanes, kSmallBlocks>(
      width / 8, queue,
      AddColumns{addends_BH, sum_H, static_cast<int>(blocks), static_cast<int>(width)});
}

int cross_entropy(Queue queue, const Bf16* logits_TV, const std::int64_t* targets_T,
                  std::int64_t from, float* lse_T, float* target_T, std::int64_t rows,
                  std::int64_t width) {
  if (width % 8 != 0 || !are_aligned(logits_TV)) return kInvalidValue;
  return launch<kVocabularyLanes, kVocabularyBlocks>(
      rows, queue,
      CrossEntropy{logits_TV, targets_T, from, lse_T, target_T, static_cast<int>(width)});
}

int cross_entropy_backward(Queue queue, Bf16* logits_TV, const std::int64_t* targets_T,
                           std::int64_t from, const float* lse_T, const float* weight_T,
                           std::int64_t rows, std::int64_t width) {
  if (width % 8 != 0 || !are_aligned(logits_TV)) return kInvalidValue;
  return launch<kVocabularyLanes, kVocabularyBlocks>(
      rows, queue,
      CrossEntropyBackward{logits_TV, targets_T, from, lse_T, weight_T, static_cast<int>(width)});
}

bool is_valid(const RopeArguments& a) {
  return a.head_dim % 16 == 0 && a.angle_stride % 8 == 0 && are_aligned(a.cos_TP, a.sin_TP) &&
         are_valid(a.from_q, a.from_k, a.from_v, a.to_q, a.to_k, a.to_v);
}

/// A head's team is within a warp, and heads are counted in 32 bits.
bool is_normed(const RopeArguments& a) {
  return is_valid(a) && a.head_dim <= kWidestNormedHead &&
         a.rows * std::max(a.q_heads, a.k_heads) <= std::numeric_limits<std::int32_t>::max();
}

int rope(Queue queue, const RopeArguments& a) {
  if (!is_valid(a)) return kInvalidValue;
  return launch<kSmallLanes, kSmallBlocks>(a.rows, queue, Rope{a});
}

int normed_rope(Queue queue, const NormedRopeArguments& a) {
  if (!is_normed(a.rope) || !are_valid(a.kept_q, a.kept_k) ||
      !are_aligned(a.q_weight_D, a.k_weight_D))
    return kInvalidValue;
  return launch<kSmallLanes, kSmallBlocks>(a.rope.rows, queue, NormedRope{a});
}

int normed_rope_backward(Queue queue, const NormedRopeBackwardArguments& a) {
  if (!is_normed(a.rope) || a.rope.to_v.data == nullptr || !are_valid(a.q, a.k) ||
      !are_aligned(a.q_weight_D, a.k_weight_D, a.dq_weight_BD, a.dk_weight_BD))
    return kInvalidValue;
  return launch<kSmallLanes, kNormedBlocks>(a.q_blocks + a.k_blocks, queue, NormedRopeBackward{a});
}

std::int64_t normed_rope_blocks(int device) {
  return multiprocessors(device) * kNormedBlocks;
}

constexpr Launchers kLaunchers{swiglu,
                               swiglu_backward,
                               rms_norm,
                               rms_norm_backward,
                               rms_norm_blocks,
                               add_columns,
                               cross_entropy,
                               cross_entropy_backward,
                               rope,
                               normed_rope,
                               normed_rope_backward,
                               normed_rope_blocks};

}  // namespace

#ifdef __CUDACC__
const Launchers* cuda_launchers() {
  return &kLaunchers;
}
#else
const Launchers& loop_launchers() {
  return kLaunchers;
}
#endif

}  // namespace slimpack::fused
