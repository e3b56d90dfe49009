// Heads whose attention looks like that of language models.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/base/random.h"
#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

struct HeadSizes {
  std::int64_t heads = 9;
  std::int64_t kv_heads = 3;
  std::int64_t head_dim = 64;
};

struct SliceTensors {
  at::Tensor q_TND;
  KeysValues kv;
};

/// Queries of the last `queries` of `tokens` tokens, and all keys and values. Scores are the sum of
///   - noise of variance 1: the diffuse rest,
///   - the sink: the first four keys attract every query,
///   - a local part, which falls with the distance: cosines of seven frequencies, as of RoPE,
///   - needles: one key in 512 attracts every query, some of them strongly.
/// Each head weighs the four parts its own way; one of eight looks at everything about equally.
[[nodiscard]] SliceTensors structured_slice(Rng& rng, const HeadSizes& sizes, std::int64_t tokens,
                                            std::int64_t queries, at::ScalarType type);

/// A slice of noise alone, in such tensors.
[[nodiscard]] SliceTensors random_slice(Rng& rng, const HeadSizes& sizes, std::int64_t tokens,
                                        std::int64_t queries, at::ScalarType type);

}  // namespace slimpack
