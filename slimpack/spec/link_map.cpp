#include "slimpack/spec/link_map.h"

#include <algorithm>

namespace slimpack {
namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMicro = 1e3;

}  // namespace

LinkMap link_map(const HardwareSpec& hardware) {
  const std::int32_t nics = std::min(hardware.nics_per_node, hardware.ranks_per_node);
  return {.ranks_per_node = hardware.ranks_per_node,
          .nics_per_node = nics,
          .node_latency = hardware.node_link_latency_us * kNanosPerMicro,
          .node_per_byte = kNanosPerSecond / hardware.node_link_bytes_per_second,
          .nic_latency = hardware.link_latency_us * kNanosPerMicro,
          .nic_per_byte =
              kNanosPerSecond / hardware.link_bytes_per_second * nics / hardware.ranks_per_node};
}

double direct_transfer(const LinkMap& links, double bytes) {
  return links.nic_latency + bytes * links.nic_per_byte;
}

double routed_transfer(const LinkMap& links, double bytes, std::int32_t proxies) {
  if (proxies == 1) return direct_transfer(links, bytes);
  const double inside = bytes * (proxies - 1) / proxies;  // the sender is a proxy itself
  const double nics = std::min(proxies, links.nics_per_node);
  return 2 * (links.node_latency + inside * links.node_per_byte) +
         direct_transfer(links, bytes / nics);
}

std::int32_t best_proxies(const LinkMap& links, double bytes) {
  std::int32_t best = 1;
  for (std::int32_t proxies = 2; proxies <= links.ranks_per_node; ++proxies)
    if (routed_transfer(links, bytes, proxies) < routed_transfer(links, bytes, best))
      best = proxies;
  return best;
}

}  // namespace slimpack
