// Link costs: what messages between ranks add to the time of computing. docs/hardware.md says where
// each term comes from.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// Adds them to costs in which messages take no time: tensor-parallel collectives, stage
/// boundaries, exchanges of gradients, and what travels between replicas that share sequences. The
/// costs have merges for groups of 2, 4, … replicas, with what these add to computing.
void add_link_costs(Costs& cost, const HardwareSpec& links, const NodePlacement& placement,
                    const ContextParallel& context);

/// Numbers of a token's keys and values on one rank. If there are more ranks than key heads,
/// several ranks hold copies of one.
[[nodiscard]] double key_elements(const LayerShape& layer, double tp);

}  // namespace slimpack
