// The bytes that a rank with a GPU of its own holds while they are on their way to or from other
// processes.
#pragma once

namespace slimpack {

/// Messages of one direction that a process holds until their receivers have them. Receives are
/// posted when messages leave as planned, so they wait only where a receiver is late: more would
/// cost memory on all ranks, one alone would stall the sender at once. Any number from 1 on is safe
/// (docs/schedule.md, "Lowering").
inline constexpr int kHeldSends = 2;

}  // namespace slimpack
