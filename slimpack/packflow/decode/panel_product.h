// Products of few rows with a panel matrix: y = x Wᵀ.
#pragma once

#include "slimpack/packflow/decode/panel_matrix.h"
#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

enum class Into : std::uint8_t { kOverwrite, kAdd };

/// x [T, I] → y [T, O]. A row's result does not depend on the other rows. Runs on libtorch's
/// threads. In bf16 64 rows take little longer than one where the processor has AMX. REQUIRES: the
/// matrix has the type of x; rows of x are padded with zeros to padded_inputs().
template <class Input>
void multiply(const PanelMatrix& weight_OI, RowsView<const Input> x_TI, RowsView<Sum<Input>> y_TO,
              Into into = Into::kOverwrite);

}  // namespace slimpack
