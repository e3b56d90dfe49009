// Hardware whose figures are round, so that sums can be done in the head.
#pragma once

#include "slimpack/spec/hardware.h"

namespace slimpack::testing {

/// Round figures, so that every term can be told from the others; nanoseconds per byte are 1 on the
/// memory, 2 on a node's links and 4 on the network.
inline HardwareSpec round_hardware() {
  HardwareSpec hardware;
  hardware.name = "round";
  hardware.peak_flops = 1000e12;
  hardware.linear_flops = 400e12;
  hardware.linear_half_rows = 0;
  hardware.attention_forward_flops = 320e12;
  hardware.attention_backward_flops = 256e12;
  hardware.attention_slice_us = 3;
  hardware.attention_token_head_ns = 0.5;
  hardware.forward_overhead_us = 60;
  hardware.backward_overhead_us = 120;
  hardware.memory_bytes = Bytes(1000);
  hardware.memory_bandwidth = 1e9;
  hardware.host_bandwidth = 0.125e9;
  hardware.ranks_per_node = 8;
  hardware.node_link_bytes_per_second = 0.5e9;
  hardware.node_link_latency_us = 7;
  hardware.link_bytes_per_second = 0.25e9;
  hardware.link_latency_us = 11;
  return hardware;
}

}  // namespace slimpack::testing
