// Model shapes that several tests use.
#pragma once

#include "slimpack/spec/decoder.h"

namespace slimpack::testing {

/// meta-llama/Llama-2-7b: 6,738,415,616 parameters.
inline Decoder llama2_7b() {
  Decoder shape;
  shape.kinds = {{.hidden_size = 4096,
                  .num_heads = 32,
                  .num_kv_heads = 32,
                  .head_dim = 128,
                  .value_dim = 128,
                  .dense_width = 11008}};
  shape.set_layers(32);
  shape.vocab_size = 32000;
  shape.max_positions = Tokens(4096);
  shape.rms_norm_eps = 1e-5;
  return shape;
}

/// Llama-2-70B's layer: hidden 8,192, 64 query heads and 8 key heads of 128, 80 layers.
inline Decoder llama2_70b() {
  Decoder shape = llama2_7b();
  shape.kinds[0].hidden_size = 8192;
  shape.kinds[0].dense_width = 28672;
  shape.set_layers(80);
  shape.kinds[0].num_heads = 64;
  shape.kinds[0].num_kv_heads = 8;
  return shape;
}

/// Grouped keys, and a query width (24) that differs from the hidden size (20).
inline Decoder small_gqa() {
  Decoder shape;
  shape.family = ModelFamily::kQwen3;
  shape.kinds = {{.hidden_size = 20,
                  .num_heads = 6,
                  .num_kv_heads = 2,
                  .head_dim = 4,
                  .value_dim = 4,
                  .qk_norm = QkNorm::kPerHead,
                  .dense_width = 28}};
  shape.set_layers(3);
  shape.vocab_size = 50;
  shape.max_positions = Tokens(4096);
  return shape;
}

/// The example of docs/row-store.md, two layers. Elements of a token: hidden 8, q 8, k 4, FFN 16.
inline Decoder row_store_example() {
  Decoder shape;
  shape.kinds = {{.hidden_size = 8,
                  .num_heads = 2,
                  .num_kv_heads = 1,
                  .head_dim = 4,
                  .value_dim = 4,
                  .dense_width = 16}};
  shape.set_layers(2);
  shape.vocab_size = 10;
  return shape;
}

}  // namespace slimpack::testing
