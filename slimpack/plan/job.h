// Job: everything that is the same in all steps of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The ranks, their layers, their speeds and their limits.
struct Job {
  StageLayout layout;  ///< the same on all replicas
  std::int32_t replicas = 1;
  /// [replica][rank of its pipeline], 1 = as the costs say; empty = all 1.
  std::vector<std::vector<double>> speed = {};
  std::optional<Bytes> memory_cap = std::nullopt;  ///< activations of a rank
  /// Tokens that a pack of whole sequences holds at most (baselines/baseline.h), on one replica or
  /// on the group that shares it. A plan of such packs is impossible if a sequence is longer.
  Tokens context{0};

  bool operator==(const Job&) const = default;
};

}  // namespace slimpack
