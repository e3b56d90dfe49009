// Sparse prefill of one prompt: which attention its slices take, and what it left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/sparse/sparse_attention.h"

namespace slimpack {

/// The method of that name with its published constants: "sample-attention" (version 3),
/// "sample-attention-v1", "flex-prefill", "x-attention". Throws InvalidInput for another name.
[[nodiscard]] SparseMethod sparse_method(std::string_view name);

/// Work of sparse attention on a prompt, and how much of dense attention it kept.
struct SparseFigures {
  double computed_pairs = 0;  ///< of queries and keys, over all layers and heads
  double dense_pairs = 0;     ///< of dense attention
  std::int64_t heads = 0;     ///< by slice and layer
  std::int64_t dense_heads = 0;
  /// Heads that were measured: their number, the least share of a query's attention that was
  /// computed, and the sum over heads of the mean over queries.
  std::int64_t measured = 0;
  double least_kept = 1;
  double sum_of_means = 0;
};

/// In place of attention_forward. Measures this machine when it first attends.
class SparsePrefill {
 public:
  /// `measured_heads`: of every layer and slice; costs dense attention of each. Throws InvalidInput
  /// where a constant of the method is out of its range.
  explicit SparsePrefill(const SparseMethod& method, std::vector<std::int64_t> measured_heads = {});

  /// Rows that the method wants to see everything at a prompt's end do so in its last slice alone.
  void begin_slice(bool last);

  [[nodiscard]] at::Tensor attend(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix);

  [[nodiscard]] const SparseFigures& figures() const { return figures_; }
  void forget_figures() { figures_ = {}; }

 private:
  SparseMethod method_;
  SparseAttention attention_;
  SparseFigures figures_;
};

}  // namespace slimpack
