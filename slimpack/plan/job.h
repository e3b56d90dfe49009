// Job: what a run's steps have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The ranks, what they hold, and how much of a step they can take.
struct Job {
  StageLayout layout;  ///< of the pipeline, whose replicas are alike
  std::int32_t replicas = 1;
  /// [replica][stage], 1 = as the costs say; empty = all 1.
  std::vector<std::vector<double>> speed = {};
  std::optional<Bytes> memory_cap = std::nullopt;  ///< activations of a rank
  /// Tokens that a pack of whole sequences holds (baselines/baseline.h), of one replica or of the
  /// group that shares it. No pack is made where a sequence is longer.
  Tokens context{0};

  bool operator==(const Job&) const = default;
};

}  // namespace slimpack
