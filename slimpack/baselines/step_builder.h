// Functions that the baselines share: they cost whole sequences, deal packs to replicas and build
// the step.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/pack_cost.h"

namespace slimpack {

/// Forward and backward time of a slice over all stages, without the per-pack term.
[[nodiscard]] PackCost step_cost(const StageTable& table);

/// step_cost of each whole sequence, rounded up to nanoseconds.
[[nodiscard]] std::vector<std::int64_t> sequence_costs(const StageTable& table,
                                                       const SequenceLengths& lengths);

/// The step with these packs, by replica. Lists each replica's sequences.
[[nodiscard]] StepPlan step_of(const StageLayout& layout, const SequenceLengths& lengths,
                               std::vector<PackPlan> replicas);

/// The step with these packs of whole sequences, [replica][pack], forward and backward.
[[nodiscard]] StepPlan whole_step(const StageLayout& layout, const SequenceLengths& lengths,
                                  const std::vector<std::vector<std::vector<SequenceId>>>& packs);

}  // namespace slimpack
