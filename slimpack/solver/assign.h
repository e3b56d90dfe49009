// Assign (design §5, phase 1): sequences to replicas, the longest of them to groups of replicas
// that run them together (DP-Merge).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/milp/solve.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// A sequence that replicas [first, first + replicas) run together; a group as MicroPack's.
struct MergedSequence {
  SequenceId sequence;
  ReplicaId first;
  std::int32_t replicas = 1;

  bool operator==(const MergedSequence&) const = default;
};

struct Assignment {
  std::vector<std::vector<SequenceId>> own;  ///< by replica: what it runs alone, ascending
  std::vector<MergedSequence> merged;        ///< largest groups first, then longest sequences
  std::vector<double> load;  ///< by replica, nanoseconds of its pacing stage, overheads left out

  bool operator==(const Assignment&) const = default;
};

struct AssignProblem {
  const SequenceLengths& lengths;
  std::vector<double> speed;  ///< by replica
  /// Entry k: forward and backward of a sequence on one of the 2^k replicas of a group that runs
  /// it, at speed 1. At least one entry.
  std::vector<PackCost> groups;
  /// Where nothing is merged and it is not too large, balance_exact goes on from balance as far as
  /// this; absent: it does not.
  std::optional<milp::SolveLimits> exact = std::nullopt;
};

/// 1. A sequence is merged on the smallest group on which it takes no replica more than
///    `merge_above` times the mean load; on the largest group if none is large enough.
/// 2. Merged sequences go to the group that is least loaded, largest groups first.
/// 3. The others are balanced around them (balance.h).
/// REQUIRES: at least one replica; groups no larger than their number. Cost: as balance.
[[nodiscard]] Assignment assign(const AssignProblem& problem, double merge_above);

/// Few long sequences cannot be balanced whole: group by group, smallest groups first, that
/// sequence of the heaviest replica is merged which makes the group lightest so, as long as this
/// gains at least `least` of the replica's load. Cost: O(sequences · groups · group size / least).
[[nodiscard]] Assignment levelled(const AssignProblem& problem, Assignment assignment,
                                  double least);

}  // namespace slimpack
