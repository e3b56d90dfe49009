// The model that benchmarks of whole steps train: small enough for a processor, bytes as tokens.
#pragma once

#include "slimpack/spec/model_shape.h"

namespace slimpack {

[[nodiscard]] inline ModelShape step_model(Tokens context, std::int64_t layers) {
  ModelShape s;
  s.hidden_size = 256;
  s.intermediate_size = 704;
  s.num_layers = layers;
  s.num_heads = 8;
  s.num_kv_heads = 4;
  s.head_dim = 32;
  s.vocab_size = 256;
  s.max_positions = context;
  return s;
}

}  // namespace slimpack
