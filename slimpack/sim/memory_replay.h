// Memory replay: activation bytes of one rank over time, from the known times of all actions.
#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/schedule/step_graph.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The highest bytes on a rank of a replica: the ledger's bytes, plus each input from its put until
/// its action starts. A put at the very moment of a start or an end counts after it, unless it is
/// the input of that start. Appends samples of the rank to `samples` unless that is null.
/// `graph`: has run. `ledger`: the rank's. Cost: O(actions · log(actions)).
[[nodiscard]] Bytes replay_memory(const StepGraph& graph, std::size_t replica, std::size_t rank,
                                  ActivationLedger ledger, const TaskBytes& bytes,
                                  std::vector<MemorySample>* samples);

}  // namespace slimpack
