// A small model on made-up hardware, and random steps for it.
#pragma once

#include <algorithm>

#include "slimpack/base/random.h"
#include "slimpack/cost/cost_model.h"
#include "tests/support/plan_request.h"

namespace slimpack::testing {

/// With links for as many replicas, and none to the host: nothing can be offloaded.
inline Costs small_cost(std::int32_t replicas = 1) {
  ModelShape shape;
  shape.hidden_size = 64;
  shape.intermediate_size = 176;
  shape.num_layers = 6;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 16;
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

/// Up to 24 sequences, most of them short, few of them long.
inline PlanRequest random_request(Rng& rng) {
  PlanRequest request;
  request.lengths.resize(1 + rng.below(24));
  for (Tokens& length : request.lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{16} << rng.below(9))));
  request.pp = 1 + static_cast<std::int32_t>(rng.below(4));
  request.granularity = Tokens(16 << rng.below(3));
  request.context = *std::max_element(request.lengths.begin(), request.lengths.end());
  return request;
}

/// The same for up to four replicas, which may run sequences together.
inline PlanRequest random_replicas(Rng& rng) {
  PlanRequest request = random_request(rng);
  request.dp = 1 + static_cast<std::int32_t>(rng.below(4));
  request.most_merged = request.dp > 1 && rng.below(2) == 0 ? 2 : 1;
  return request;
}

inline Bytes highest(const std::vector<Bytes>& by_stage) {
  return *std::max_element(by_stage.begin(), by_stage.end());
}

}  // namespace slimpack::testing
