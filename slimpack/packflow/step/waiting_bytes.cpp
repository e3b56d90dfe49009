#include "slimpack/packflow/step/waiting_bytes.h"

#include <algorithm>
#include <map>

namespace slimpack {

WaitingBytes::WaitingBytes(std::span<const WaitedInput> inputs) {
  std::map<Nanos, Bytes> changes;
  for (const WaitedInput& input : inputs) {
    changes[input.put] += input.bytes;
    changes[input.taken] -= input.bytes;
  }
  Bytes level;
  for (const auto& [time, change] : changes) levels_.emplace_back(time, level += change);
}

std::vector<WaitingBytes::Level>::const_iterator WaitingBytes::after(Nanos time) const {
  return std::ranges::upper_bound(levels_, time, {}, &Level::first);
}

Bytes WaitingBytes::at(Nanos time) const {
  const auto next = after(time);
  return next == levels_.begin() ? Bytes(0) : std::prev(next)->second;
}

Bytes WaitingBytes::most(Nanos begin, Nanos end) const {
  Bytes most = at(begin);
  for (auto level = after(begin); level != levels_.end() && level->first < end; ++level)
    most = std::max(most, level->second);
  return most;
}

}  // namespace slimpack
