#include "slimpack/spec/hardware.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

/// Two nodes of four ranks with two NICs each. A byte takes 1 ns inside a node and 10 ns over a
/// NIC.
constexpr LinkMap kLinks{.ranks_per_node = 4,
                         .nics_per_node = 2,
                         .node_latency = 100,
                         .node_per_byte = 1,
                         .nic_latency = 1'000,
                         .nic_per_byte = 10};

TEST(LinkMap, IsThatOfAHardwareFile) {
  HardwareSpec hardware;
  hardware.ranks_per_node = 4;
  hardware.nics_per_node = 2;
  hardware.node_link_bytes_per_second = 1e9;
  hardware.node_link_latency_us = 0.1;
  hardware.link_bytes_per_second = 0.5e8;  // of each of two ranks that share a NIC
  hardware.link_latency_us = 1;
  EXPECT_EQ(link_map(hardware), kLinks);
  EXPECT_EQ(kLinks.node(3), 0);
  EXPECT_EQ(kLinks.node(4), 1);
}

}  // namespace
}  // namespace slimpack
