// Linear maps of experts. Each expert has a matrix of its own, and takes the rows that are sent to
// it. The matrices of all experts lie one below the other in one parameter [E · O, I].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack {

/// How rows go to experts: pairs of a row and one of its experts, sorted by expert. P = rows · K,
/// where K is the number of experts of each row.
struct ExpertPairs {
  at::Tensor row_P;     ///< the row of each pair
  at::Tensor place_TK;  ///< where the row's pairs are
  at::Tensor ends_E;    ///< where each expert's pairs end, int32

  [[nodiscard]] bool defined() const { return ends_E.defined(); }
  /// The row of each pair: a copy.
  [[nodiscard]] at::Tensor of_rows(const at::Tensor& x_TH) const;
  /// The sum of each row's pairs.
  [[nodiscard]] at::Tensor summed(at::Tensor x_PH) const;
  /// Values of each row's pairs side by side, [T, K · W]. by_expert is the inverse, and takes
  /// pieces one below the other.
  [[nodiscard]] at::Tensor by_row(const at::Tensor& x_PW) const;
  [[nodiscard]] at::Tensor by_expert(const std::vector<at::Tensor>& pieces_TX) const;
};

/// The pairs of rows with these experts, each below `experts`.
[[nodiscard]] ExpertPairs expert_pairs(const at::Tensor& choice_TK, std::int64_t experts);

/// x [P, I] → [P, O]. One grouped product of libtorch's where it takes the type and the widths,
/// else one product an expert.
[[nodiscard]] at::Tensor grouped_linear(const at::Tensor& x_PI, const Parameter& weight_EOI,
                                        const ExpertPairs& pairs);

/// Gradient of the input.
[[nodiscard]] at::Tensor grouped_input_gradient(const at::Tensor& dy_PO,
                                                const Parameter& weight_EOI,
                                                const ExpertPairs& pairs);

/// Adds each expert's dyᵀ x to its matrix's gradient, one product an expert: a grouped one would
/// round to the operands' type. Waits for the pairs where they lie on a device.
void accumulate_grouped_gradient(const at::Tensor& dy_PO, const at::Tensor& x_PI,
                                 Parameter& weight_EOI, const ExpertPairs& pairs);

}  // namespace slimpack
