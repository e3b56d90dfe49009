// Assign (docs/solver.md, phase 1): sequences to replicas. The longest go to groups of replicas
// that run them together (DP-Merge).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/milp/solve.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// A sequence that replicas [first, first + replicas) run together: a group as in MicroPack.
struct MergedSequence {
  SequenceId sequence;
  ReplicaId first;
  std::int32_t replicas = 1;

  bool operator==(const MergedSequence&) const = default;
};

struct Assignment {
  std::vector<std::vector<SequenceId>> own;  ///< by replica: those that it runs alone, ascending
  std::vector<MergedSequence> merged;        ///< largest groups first, then longest sequences
  std::vector<double> load;  ///< by replica, nanoseconds of its pacing stage without overheads

  bool operator==(const Assignment&) const = default;
};

/// Sequences and the replicas that share them. Keeps references.
struct AssignProblem {
  const SequenceLengths& lengths;
  std::span<const double> speed;  ///< by replica
  /// Entry k is the cost of a sequence, forward and backward, to each of 2^k replicas that run it
  /// together, at speed 1; it does not fall with the length.
  std::span<const PackCost> groups;
};

/// 1. A sequence is merged on the smallest group whose replicas it gives no more than `merge_above`
///    times the least load: the mean, or what the longest gives to each replica of the group that
///    it loads least, if that is more. Where no group is large enough for a sequence, it takes the
///    one that it loads least.
/// 2. Merged sequences go to the group that is least loaded, largest groups first.
/// 3. The others are balanced around them (balance.h). With `exact`, balance_exact goes on from
///    there as far as these limits, if nothing is merged and the problem is not too large.
/// REQUIRES: at least one replica; at least one group; none larger than the number of replicas.
/// Cost: as balance.
[[nodiscard]] Assignment assign(const AssignProblem& problem, double merge_above,
                                const std::optional<milp::SolveLimits>& exact = std::nullopt);

/// The assignments of several thresholds, each once; and those in which sequences take the largest
/// group where none is large enough: they need least memory there. REQUIRES: as assign; thresholds
/// fall.
/// Cost: of each assignment that differs, as balance; the lengths are sorted once.
[[nodiscard]] std::vector<Assignment> assignments(const AssignProblem& problem,
                                                  std::span<const double> merge_above);

/// The assignment in which share_fit.h puts the long sequences on groups; the others are balanced
/// around them. nullopt unless all its loads are below `below`. REQUIRES: as assign.
/// Cost: as share_fit of the sequences that are not short, and as balance; sorting alone where the
/// least load shows that there is none.
[[nodiscard]] std::optional<Assignment> fitted(const AssignProblem& problem, double below);

/// Few long sequences cannot be balanced whole. Group by group, smallest groups first, this merges
/// the sequence of the heaviest replica that leaves the group lightest, as long as the merge takes
/// at least the share `least` of that replica's load off the highest load. Cost: O(sequences ·
/// groups · group size / least).
[[nodiscard]] Assignment levelled(const AssignProblem& problem, Assignment assignment,
                                  double least);

}  // namespace slimpack
