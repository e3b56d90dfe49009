// Elastic chunks: long sequences cut into chunks of equal time, short ones packed with their tails.
// InfiniPipe's sequence processor (arXiv:2509.21275, algorithm 1).
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/baselines/cut_pack.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Where every sequence is cut: where the longest one has `chunks` slices of equal weight, less
/// where it has fewer tokens. Ascending; the last end is its length. Empty without sequences.
[[nodiscard]] std::vector<Tokens> chunk_ends(const SequenceLengths& lengths,
                                             const SliceWeight& weight, std::int32_t chunks);

/// Groups of sequences, each a micro-batch (slices_at). A group has one sequence longer than
/// `ends.front()` at most, its first. The sequences beside it are packed with its tail, the part
/// behind the last end that it reaches. A chunk has at most ends.front() tokens. Its weight is at
/// most that of a slice of the longest sequence, more where the step has no room for that. Groups
/// of more slices come first, of equally many the heavier ones. Every sequence is in one group.
/// Deterministic. REQUIRES: chunk_ends of the lengths. Cost: O(n log n).
[[nodiscard]] SequencePacks elastic_groups(const SequenceLengths& lengths,
                                           const SliceWeight& weight,
                                           const std::vector<Tokens>& ends);

}  // namespace slimpack
