// Packs of whole sequences, and steps of packs, which the baselines share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// How packs of whole sequences are filled.
enum class Packing : std::uint8_t {
  kFirstFit,  ///< longest first, each into the oldest pack that has room
  /// Longest first, each into the fullest pack that has room (of equals the oldest): best-fit
  /// decreasing (Johnson 1973; Megatron, TRL).
  kBestFit,
  kConcatenated,  ///< as given; a new pack whenever a sequence does not fit into the last one
};

/// The sequences of each pack of at most `capacity` tokens, in the order in which packs were
/// opened. Throws InvalidInput when a sequence exceeds the capacity. REQUIRES: every length ≥ 1.
/// Cost: O(n log n).
[[nodiscard]] std::vector<std::vector<SequenceId>> pack_sequences(
    const SequenceLengths& lengths, const std::vector<SequenceId>& sequences, Tokens capacity,
    Packing packing);

/// A MicroPack of these sequences, uncut.
[[nodiscard]] MicroPack whole_pack(const SequenceLengths& lengths,
                                   const std::vector<SequenceId>& sequences);

/// Forward and backward time over all stages, of a pack that so many replicas share.
[[nodiscard]] PackCost step_cost(const StageTable& table, std::int32_t replicas = 1);

/// step_cost of each whole sequence, rounded up to nanoseconds.
[[nodiscard]] std::vector<std::int64_t> sequence_costs(const BaselineInput& input);

/// The step with these packs, by replica. Lists each replica's sequences.
[[nodiscard]] StepPlan step_of(const BaselineInput& input, std::vector<PackPlan> replicas);

/// The step of these shares, each of `group` replicas that share all its packs, forward and
/// backward; of one replica of each share if the input asks for the first alone.
[[nodiscard]] StepPlan shared_step(
    const BaselineInput& input, const std::vector<SequencePacks>& shares, std::int32_t group,
    const std::function<MicroPack(const std::vector<SequenceId>&)>& pack);

/// The step with these packs of whole sequences, [replica][pack], forward and backward.
[[nodiscard]] StepPlan whole_step(const BaselineInput& input,
                                  const std::vector<SequencePacks>& packs);

}  // namespace slimpack
