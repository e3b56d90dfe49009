// The bytes that a rank with a GPU of its own holds while they are on their way to or from other
// processes.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/counted.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Messages of one direction that a process holds until their receivers have them. Receives are
/// posted when messages leave as planned, so they wait only where a receiver is late: more would
/// cost memory on all ranks, one alone would stall the sender at once. Any number from 1 on is safe
/// (docs/schedule.md, "Lowering").
inline constexpr int kHeldSends = 2;

/// Adds what travels to the peaks of actions; nothing where ranks have no GPUs of their own, or run
/// a model's own layers, which torch reduces.
///  - Messages, at all actions: for each neighbour of the rank, kHeldSends that leave, and one
///    that comes. A message that leaves stays until the other rank has it; those count that are
///    largest together. One that comes has its memory before it is sent; inputs count it only once
///    it has been sent (TaskBytes::forward_input). The largest counts.
///  - Gradients, at the last action of the rank's first stage: those of the other replicas for the
///  own shard of every layer;
///    in large groups copies of what is sent, and parts of what the rank sums for others.
///    Sums begin as its layers complete, or after it if it sends an output. The slowest replica may
///    be late for all of them.
/// REQUIRES: the bytes are those of one of `replicas` replicas.
void add_in_flight(TaskBytes& bytes, const Costs& cost, const StageLayout& layout,
                   std::int32_t replicas, Counted counted = Counted::kAll);

/// Gradients as add_in_flight adds them to a rank of the pipeline: every plan has them at some
/// moment.
[[nodiscard]] Bytes gradients_in_flight(const Costs& cost, const StageLayout& layout,
                                        std::int32_t rank, std::int32_t replicas);

}  // namespace slimpack
