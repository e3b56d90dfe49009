// Model shapes that several tests use.
#pragma once

#include "slimpack/spec/model_shape.h"

namespace slimpack::testing {

/// meta-llama/Llama-2-7b: 6,738,415,616 parameters.
inline ModelShape llama2_7b() {
  ModelShape shape;
  shape.hidden_size = 4096;
  shape.intermediate_size = 11008;
  shape.num_layers = 32;
  shape.num_heads = 32;
  shape.num_kv_heads = 32;
  shape.head_dim = 128;
  shape.vocab_size = 32000;
  shape.max_positions = Tokens(4096);
  shape.rms_norm_eps = 1e-5;
  return shape;
}

/// Grouped keys, and a query width (24) that differs from the hidden size (20).
inline ModelShape small_gqa() {
  ModelShape shape;
  shape.family = ModelFamily::kQwen3;
  shape.hidden_size = 20;
  shape.intermediate_size = 28;
  shape.num_layers = 3;
  shape.num_heads = 6;
  shape.num_kv_heads = 2;
  shape.head_dim = 4;
  shape.vocab_size = 50;
  shape.max_positions = Tokens(4096);
  shape.qk_norm = true;
  return shape;
}

/// The example of docs/row-store.md, two layers. Elements of a token: hidden 8, q 8, k 4, FFN 16.
inline ModelShape row_store_example() {
  ModelShape shape;
  shape.hidden_size = 8;
  shape.intermediate_size = 16;
  shape.num_layers = 2;
  shape.num_heads = 2;
  shape.num_kv_heads = 1;
  shape.head_dim = 4;
  shape.vocab_size = 10;
  return shape;
}

}  // namespace slimpack::testing
