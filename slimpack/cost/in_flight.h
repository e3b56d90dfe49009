// What a rank with a GPU of its own holds while it is on its way to or from other processes.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Groups of so many members exchange directly. In larger ones members sum for others, too
/// (packflow/ranks/mesh.h).
inline constexpr std::int32_t kDirectMembers = 8;

/// Adds what travels to the peaks of actions; nothing where ranks have no GPUs of their own, or run
/// a model's own layers, which torch reduces.
///  - Messages, at all actions: for each stage beside the rank's, one of either direction. A
///  message
///    that leaves stays until the other rank has it, and one that comes has its memory before it is
///    sent. Both count as the largest of their pass.
///  - Gradients, at the last action: those of the other replicas for the own shard of every layer.
///    Reductions begin as layers complete, and the slowest replica may be late for all of them.
/// REQUIRES: the bytes are those of one of `replicas` replicas.
void add_in_flight(TaskBytes& bytes, const Costs& cost, const StageLayout& layout,
                   std::int32_t replicas);

}  // namespace slimpack
