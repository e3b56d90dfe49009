// The model that benchmarks of whole steps train: small enough for a processor, bytes as tokens.
#pragma once

#include "slimpack/spec/decoder.h"

namespace slimpack {

[[nodiscard]] inline Decoder step_model(Tokens context, std::int64_t layers) {
  Decoder s;
  s.kinds[0].hidden_size = 256;
  s.kinds[0].dense_width = 704;
  s.set_layers(layers);
  s.kinds[0].num_heads = 8;
  s.kinds[0].num_kv_heads = 4;
  s.kinds[0].head_dim = s.kinds[0].value_dim = 32;
  s.vocab_size = 256;
  s.max_positions = context;
  return s;
}

}  // namespace slimpack
