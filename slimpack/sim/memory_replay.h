// Memory replay: activation bytes of one rank over time, from the known times of all actions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// When the inputs of one pass were put into the channel to this stage, by pack. Empty on a stage
/// that reads no inputs of this pass.
struct ArrivingInputs {
  std::span<const std::int64_t> put;
  std::span<const Bytes> bytes;
};

/// When the actions of a pass ran, by pack.
struct ActionTimes {
  std::span<const std::int64_t> start;
  std::span<const std::int64_t> end;
};

struct StageTimes {
  ActionTimes forward;
  ActionTimes backward;  ///< whole or input gradients
  ActionTimes weight;    ///< weight gradients that were put off
  ArrivingInputs forward_inputs;
  ArrivingInputs backward_inputs;
};

struct RankTimes {
  std::span<const Action> actions;
  const StagePlacement& placement;
  std::vector<StageTimes> stages;                      ///< by number of the stage on the rank
  std::array<ActionTimes, kJointPasses.size()> joint;  ///< E, H and G
};

/// The highest bytes on the rank: the ledger's bytes, plus each input from its put until its
/// action starts. A put at the very moment of a start or an end counts after it, unless it is the
/// input of that start. Appends samples of `rank` to `samples` unless that is null.
[[nodiscard]] Bytes replay_memory(const RankTimes& times, ActivationLedger ledger,
                                  std::int32_t rank, std::vector<MemorySample>* samples);

}  // namespace slimpack
