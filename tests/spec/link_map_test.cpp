#include "slimpack/spec/link_map.h"

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

TEST(LinkMap, SpreadsATransferOverItsProxies) {
  EXPECT_EQ(direct_transfer(kLinks, 400), 1'000 + 4'000);
  EXPECT_EQ(routed_transfer(kLinks, 400, 1), direct_transfer(kLinks, 400));
  // Half of it stays with the sender: 200 to one proxy, 200 over each NIC, 200 collected.
  EXPECT_EQ(routed_transfer(kLinks, 400, 2), 2 * (100 + 200) + 1'000 + 2'000);
  // Four proxies share two NICs: these carry as much as before.
  EXPECT_EQ(routed_transfer(kLinks, 400, 4), 2 * (100 + 300) + 1'000 + 2'000);
}

TEST(LinkMap, RoutesWhatIsLargeEnough) {
  EXPECT_EQ(best_proxies(kLinks, 400), 2);
  // 10 bytes: direct 1,100, over two proxies 2 · 105 + 1,050.
  EXPECT_EQ(best_proxies(kLinks, 10), 1);
  LinkMap one_nic = kLinks;
  one_nic.nics_per_node = 1;
  EXPECT_EQ(best_proxies(one_nic, 1e6), 1);
}

}  // namespace
}  // namespace slimpack
