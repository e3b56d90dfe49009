#include "slimpack/data/sequence_tokens.h"

#include <numeric>

namespace slimpack {

TargetMask all_targets(std::size_t tokens) {
  TargetMask targets(tokens, 1);
  if (tokens > 0) targets.front() = 0;
  return targets;
}

std::int64_t count_of(const TargetMask& targets) {
  return std::accumulate(targets.begin(), targets.end(), std::int64_t{0});
}

}  // namespace slimpack
