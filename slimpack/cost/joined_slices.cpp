#include "slimpack/cost/joined_slices.h"

namespace slimpack {

std::size_t joined_slices(std::span<const Slice> slices, std::int64_t key_bytes,
                          std::optional<std::size_t> alone) {
  const auto prefix = [&](std::size_t s) { return slices[s].begin > Tokens(0); };
  std::int64_t copied = slices.front().end.count() * key_bytes;
  bool any_prefix = prefix(0);
  std::size_t joined = 1;
  if (alone == 0) return joined;
  for (; joined < slices.size() && alone != joined; ++joined) {
    copied += slices[joined].end.count() * key_bytes;
    any_prefix = any_prefix || prefix(joined);
    if (any_prefix && copied > static_cast<std::int64_t>(joined) * kBytesOfACall) break;
  }
  return joined;
}

}  // namespace slimpack
