#include "slimpack/packflow/profile/cold_caches.h"

#include <unistd.h>

#include <algorithm>

namespace slimpack {
namespace {

constexpr std::size_t kLine = 64;

/// Several times the largest cache that a processor has for itself. The system says 0 where it does
/// not know it.
std::size_t bytes_of_others() {
  constexpr long kUsual = 2 << 20;
  constexpr std::size_t kTimes = 8;
  const long second_level = std::max(::sysconf(_SC_LEVEL2_CACHE_SIZE), 0L);
  return kTimes * static_cast<std::size_t>(second_level > 0 ? second_level : kUsual);
}

}  // namespace

ColdCaches::ColdCaches(c10::Device device) {
  if (device.is_cpu()) others_.resize(bytes_of_others());
}

void ColdCaches::displace() {
  for (std::size_t i = 0; i < others_.size(); i += kLine) ++others_[i];
}

}  // namespace slimpack
