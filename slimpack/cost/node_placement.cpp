#include "slimpack/cost/node_placement.h"

#include <algorithm>

namespace slimpack {

bool NodePlacement::holds(std::int64_t ranks) const {
  const std::int64_t all = std::int64_t{tensor} * stages * replicas;
  if (ranks_per_node == 0 || all <= ranks_per_node) return true;
  return ranks <= ranks_per_node && ranks_per_node % ranks == 0;
}

std::int32_t NodePlacement::stages_together() const {
  if (ranks_per_node == 0) return stages;
  return std::clamp(ranks_per_node / tensor, 1, stages);
}

std::int32_t NodePlacement::replicas_together() const {
  if (ranks_per_node == 0) return replicas;
  const std::int64_t each = std::int64_t{tensor} * stages;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(ranks_per_node / each, 1, replicas));
}

std::int32_t NodePlacement::replicas_summed_in_node() const {
  if (holds_replicas(replicas)) return 1;
  std::int32_t summed = 1;
  while (replicas % (2 * summed) == 0 && holds_replicas(2 * summed)) summed *= 2;
  return summed;
}

}  // namespace slimpack
