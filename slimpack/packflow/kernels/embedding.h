// Embedding: tokens to hidden states and back, its vocabulary cut over tensor-parallel ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/tensor_rows.h"

namespace slimpack {

/// Own rows of the hidden states. `tokens_T` are those of all rows.
[[nodiscard]] at::Tensor embed(const Parameter& embedding_VH, const at::Tensor& tokens_T,
                               const TensorRows& rows);

/// Adds to the gradient, from that of own rows.
void embed_backward(Parameter& embedding_VH, const at::Tensor& tokens_T, const at::Tensor& dy_TH,
                    const TensorRows& rows);

}  // namespace slimpack
