// Simulation of a single replica.
#pragma once

#include <span>

#include "slimpack/sim/simulate.h"

namespace slimpack::testing {

[[nodiscard]] inline SimulationResult simulate(const PackPlan& packs, const Schedule& schedule,
                                               const TaskTimes& times, const TaskBytes& bytes,
                                               const SimulationOptions& options = {}) {
  const ReplicaPacks replica{packs, times, bytes};
  return slimpack::simulate(std::span(&replica, 1), std::span(&schedule, 1), options);
}

}  // namespace slimpack::testing
