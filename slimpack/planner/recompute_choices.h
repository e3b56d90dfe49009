// Recompute choices: the recomputations that a step is planned with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/cost/stage_table.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// A policy for each layer of a step.
struct RecomputeChoice {
  RecomputeByLayer recompute;
  bool mixed = false;  ///< whether layers of a stage differ
  double time = 0;     ///< nanoseconds of all stages for all sequences
  double bytes = 0;    ///< that all layers together keep of a token

  bool operator==(const RecomputeChoice&) const = default;
};

/// Each policy that the choices allow, for all layers, but none that takes as long as another one
/// and keeps more (kNothing on a GPU whose fused kernels give what kElementwise computes again);
/// and mixtures, where layers may differ. They come in the order of the time that these sequences
/// take, shortest first. Mixtures are made so:
/// 1. A policy is left out when a mixture of two others is as good in both respects: the bytes that
///    a token keeps on the device, and the time. Bytes and time of a mixture lie between those of
///    its parts, so mixtures with that policy are not needed either.
/// 2. Policies that are neighbours in bytes are mixed. The first n layers of every stage take the
///    one that keeps less: they run last in backward, when the other layers have freed their rows.
///    The same n for every stage keeps the stages balanced.
/// The choices do not depend on the memory cap, so the cap only filters them.
/// Cost: O(sequences · policies + choices · layers).
[[nodiscard]] std::vector<RecomputeChoice> recompute_choices(const StepQuestion& question);

/// The job's stages with a recomputation by layer.
[[nodiscard]] StageTable stage_table(const Costs& cost, const Job& job,
                                     const RecomputeByLayer& recompute);
/// The job's stages where all layers have one policy.
[[nodiscard]] StageTable stage_table(const Costs& cost, const Job& job, Recompute everywhere);

/// True when, in every plan, the longest sequence alone or the reduction of gradients keeps more
/// than the cap on some stage.
[[nodiscard]] bool never_fits(const std::optional<Bytes>& memory_cap,
                              const SequenceLengths& lengths, std::int32_t most_merged,
                              const StageTable& table);

/// A table for bounds: no layer costs less, whatever allowed policy or mixture it has.
[[nodiscard]] StageTable cheapest_table(const Costs& cost, const Job& job,
                                        std::span<const Recompute> allowed);

}  // namespace slimpack
