// Panel matrices, weights laid out for products with few rows, and these products: y = x Wᵀ.
//
// Such a product reads each weight once and computes little with it, so the speed of memory
// decides. Outputs lie in panels of 16. A panel has the 16 weights of each input side by side, in
// bf16 those of two inputs, interleaved, as AMX takes them. A product then reads its panels from
// front to end.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

/// A matrix [O, I] in memory of its own, O padded to whole panels and I to kInputPadding.
class PanelMatrix {
 public:
  PanelMatrix() = default;
  /// Rounds the weights to `type`: kDouble, kFloat or kBFloat16. REQUIRES: they are on a CPU.
  PanelMatrix(const at::Tensor& weight_OI, at::ScalarType type);

  [[nodiscard]] bool defined() const { return panels_.defined(); }
  [[nodiscard]] at::ScalarType type() const { return panels_.scalar_type(); }
  [[nodiscard]] std::int64_t outputs() const { return outputs_; }
  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  [[nodiscard]] std::int64_t padded_inputs() const { return padded_to(inputs_, kInputPadding); }
  [[nodiscard]] std::int64_t panels() const { return padded_to(outputs_, kLanes) / kLanes; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(panels_.nbytes()); }

  /// The matrix as it was given, for products with many rows. A copy, at the speed of memory.
  [[nodiscard]] at::Tensor whole_OI() const;

  /// Row `output` of the matrix.
  template <class Input>
  void copy_row(std::int64_t output, Sum<Input>* to) const;

  /// Rows of the matrix, one for each index (int64).
  [[nodiscard]] at::Tensor rows_TI(const at::Tensor& index_T) const;

  /// REQUIRES: Input is type().
  template <class Input>
  [[nodiscard]] const Input* panel(std::int64_t index) const {
    return panels_.const_data_ptr<Input>() + index * kLanes * padded_inputs();
  }

 private:
  at::Tensor panels_;  ///< [panels, I / g, 16, g], g = 2 in bf16 and 1 else
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
};

enum class Into : std::uint8_t { kOverwrite, kAdd };

/// x [T, I] → y [T, O]. A row's result does not depend on the other rows. Runs on libtorch's
/// threads. In bf16 64 rows take little longer than one where the processor has AMX. REQUIRES: the
/// matrix has the type of x; rows of x are padded with zeros to padded_inputs().
template <class Input>
void multiply(const PanelMatrix& weight_OI, RowsView<const Input> x_TI, RowsView<Sum<Input>> y_TO,
              Into into = Into::kOverwrite);

}  // namespace slimpack
