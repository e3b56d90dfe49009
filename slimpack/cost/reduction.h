// Exchanges of gradients and parameters between the replicas of a job, and what of them the last
// backward MicroPack hides.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// The members [begin, end) of a group.
struct MemberBlock {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  [[nodiscard]] std::int32_t size() const { return end - begin; }
  bool operator==(const MemberBlock&) const = default;
};

/// All blocks of a group, in the order of their members: one of up to 15 members, else blocks of
/// the power of two, from 8 on, with which the member with most partners has fewest: about √n. The
/// last block may be smaller. So no block cuts a node of 1, 2, 4 or 8 ranks, and the blocks' sums
/// are parts of a pairwise sum over all members.
[[nodiscard]] std::vector<MemberBlock> member_blocks(std::int32_t members);

/// A rank's buckets (packflow/parameters) in the order in which backward completes them: the
/// head's, one for each layer from the last to the first, the embedding's. Each is reduced on its
/// own, one after the other, as soon as it is complete. The replicas of a node sum first, where a
/// node has several (NodePlacement::replicas_summed_in_node). Between nodes members of one block
/// (member_blocks) exchange directly, in one round; several blocks need two. In any case a rank
/// sends (replicas − 1) / replicas of the bytes.

/// How many messages a byte's sum waits for, one after the other.
[[nodiscard]] std::int32_t reduction_rounds(const NodePlacement& placement);

/// The average latency of one round (reduction_rounds), and the average time of a byte that leaves
/// a rank. If g replicas sum in their node first, (g − 1)/g of the bytes stay there.
[[nodiscard]] Link reduction_link(const LinkMap& links, const NodePlacement& placement);

/// Nanoseconds from a rank's last action until all of its gradients are reduced. `last_backward`:
/// nanoseconds of that action if it sends nothing to other stages or replicas, else 0: a rank sends
/// before it reduces (packflow/step/rank_step.cpp). In it
/// the stage's layers take equal parts, the last layer first; the head's bucket counts as complete
/// with the first of them, the embedding's with the end. A bucket waits for the one before it, and
/// the first for reductions that take `before` (those of the rank's other stages). 0 with one
/// replica.
/// Cost: O(layers of the stage).
[[nodiscard]] double reduction_after(const Costs& cost, const StageLayout& layout, StageId stage,
                                     std::int32_t replicas, double last_backward,
                                     double before = 0);

/// Nanoseconds in which every rank of the stage gets the updated parameters of all others, after
/// the optimizer; nothing hides them. 0 with one replica, and with ZeRO-3, which gathers them anew
/// for every MicroPack.
[[nodiscard]] double parameter_gathering(const Costs& cost, const StageLayout& layout,
                                         StageId stage, std::int32_t replicas);

/// Nanoseconds in which replicas exchange what they share out for one MicroPack of a pass. With
/// ZeRO-2 gradients are reduced in every backward; with ZeRO-3 weights are gathered in every
/// forward and every backward, too. They travel while layers run. 0 with one replica.
[[nodiscard]] double shared_state_traffic(const Costs& cost, const StageLayout& layout,
                                          StageId stage, std::int32_t replicas, Pass pass);

/// The most parameters of one bucket of a stage, of either sort: what a rank has whole of what is
/// shared out.
[[nodiscard]] ParameterCount largest_bucket(const Costs& cost, const StageLayout& layout,
                                            StageId stage);

}  // namespace slimpack
