// A small model on made-up hardware.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"

namespace slimpack::testing {

/// Six layers. With links for as many replicas, and none to the host: nothing can be offloaded.
inline Costs small_cost(std::int32_t replicas = 1) {
  Decoder shape;
  shape.kinds = {{.hidden_size = 64,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 16,
                  .value_dim = 16,
                  .dense_width = 176}};
  shape.set_layers(6);
  shape.vocab_size = 257;
  shape.max_positions = Tokens(1 << 20);
  HardwareSpec hardware;
  hardware.linear_flops = 1e11;
  hardware.linear_half_rows = 0;
  hardware.attention_forward_flops = 5e10;
  hardware.attention_backward_flops = 4e10;
  hardware.attention_slice_us = 24;
  hardware.attention_token_head_ns = 0.68;
  hardware.forward_overhead_us = 20;
  hardware.backward_overhead_us = 20;
  hardware.host_bandwidth = 0;
  hardware.node_link_latency_us = hardware.link_latency_us = 10;
  return cost_from_hardware(shape, Dtype::kFp32, hardware, 1, replicas);
}

}  // namespace slimpack::testing
