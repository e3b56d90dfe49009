// What the baselines share: costs of whole sequences, packs dealt to replicas, the step around
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/pack_cost.h"

namespace slimpack {

/// Forward and backward of a slice over all stages, without what a MicroPack costs by itself.
[[nodiscard]] PackCost step_cost(const StageLayout& layout, const RecomputingCosts& cost);

/// step_cost of each whole sequence, rounded up to nanoseconds.
[[nodiscard]] std::vector<std::int64_t> sequence_costs(const StageLayout& layout,
                                                       const SequenceLengths& lengths,
                                                       const RecomputingCosts& cost);

/// Item i goes to replica i mod replicas.
template <class T>
[[nodiscard]] std::vector<std::vector<T>> deal(const std::vector<T>& items, std::int32_t replicas) {
  std::vector<std::vector<T>> dealt(static_cast<std::size_t>(replicas));
  for (std::size_t i = 0; i < items.size(); ++i) dealt[i % dealt.size()].push_back(items[i]);
  return dealt;
}

/// The step of these packs, by replica, with the sequences that each replica holds.
[[nodiscard]] StepPlan step_of(const StageLayout& layout, const SequenceLengths& lengths,
                               std::vector<PackPlan> replicas);

/// The step of whole sequences: forward and backward are the same packs. [replica][pack].
[[nodiscard]] StepPlan whole_step(const StageLayout& layout, const SequenceLengths& lengths,
                                  const std::vector<std::vector<std::vector<SequenceId>>>& packs);

}  // namespace slimpack
