// Chain bound: the least time in which one sequence passes a pipeline one way, however it is cut.
#pragma once

#include <vector>

#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// The bound is in nanoseconds before rounding, without transfers. `stages`: what a MicroPack costs
/// on each, in the order that slices pass them. Whatever the cuts, the slices up to any one of them
/// follow each other on the first stage, that one passes the other stages, and those after it
/// follow each other on the last. Slices come from head to tail, or from tail to head. The bound
/// takes the slice that this is longest for. It knows cuts by the cell that they are in, a 128th of
/// the sequence, and takes each slice to be as short as its cells allow, but for what adds up to
/// the same for all cuts. Messages (Travel) count slice by slice: a group of replicas sends the
/// keys before each slice again. 0: a stage's messages hide behind more than attention takes, so
/// that other slices of a MicroPack could make it shorter. REQUIRES: two stages; a token. Cost:
/// O(128² · distinct stages), some tenths of a millisecond.
[[nodiscard]] double chain_bound(const std::vector<PackCost>& stages, Tokens length);

}  // namespace slimpack
