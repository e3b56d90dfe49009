// A decoder layer on many rows of a sequence, or on a device: libtorch's operators on whole slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "slimpack/packflow/decode/row_attention.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/language/decoder_weights.h"
#include "slimpack/packflow/language/key_value_cache.h"
#include "slimpack/packflow/language/sparse_prefill.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// The inputs that the layers of one pass share. Keeps references.
struct SlicePass {
  const Decoder& shape;
  const KeyValueCache& cache;  ///< with room for the rows
  RopeRows rope;               ///< of the rows
  const OwnKeys& own;          ///< rows and keys are those of x
  SparsePrefill* sparse;       ///< null = dense
};

/// y = layer(x), in the compute type. Writes keys and values of the rows to the cache, after its
/// size(). Scores of a tree are held whole for the rows' own keys.
[[nodiscard]] at::Tensor slice_layer(const SlicePass& pass, const DecoderLayerWeights& weights,
                                     std::size_t layer, const at::Tensor& x_TH);

}  // namespace slimpack
