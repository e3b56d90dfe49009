// Panel products with AMX: tiles of 16 rows and 32 inputs in bf16, sums in fp32.
// https://cdrdv2.intel.com/v1/dl/getContent/671368 (Intel's instruction set extensions, chapter 3)
#pragma once

#include "slimpack/packflow/decode/rows.h"

namespace slimpack {

/// Whether processor and system have AMX for bf16. Asks the system once for this process.
[[nodiscard]] bool has_amx();

/// Rows that one reading of the weights serves.
inline constexpr std::int64_t kAmxRows = 64;

/// Panels [begin, end) of a matrix at `panels`, with the rows of x, at most kAmxRows; adds to y.
/// `outputs`: those of the matrix, of which the last panel may have fewer than 16.
/// REQUIRES: has_amx().
void amx_add_products(const c10::BFloat16* panels, std::int64_t begin, std::int64_t end,
                      std::int64_t padded_inputs, std::int64_t outputs,
                      RowsView<const c10::BFloat16> x_TI, RowsView<float> y_TO);

}  // namespace slimpack
