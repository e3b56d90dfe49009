// Memory fit: what the memory cap forces on every plan of a step. Between its last forward slice
// and its first backward slice a sequence lies in the memory of its replica, or of its group, as a
// whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/cost/stage_table.h"
#include "slimpack/plan/slice.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {

class MemoryFit {
 public:
  /// Without a cap everything fits, and where policies do not say what a token keeps
  /// (Abilities::keeps_by_token).
  explicit MemoryFit(const BoundProblem& problem);

  /// Whether 2^k replicas can hold a sequence, on every rank, with the policies that keep least.
  [[nodiscard]] bool holds(Tokens length, std::size_t k) const;

  /// Nanoseconds at speed 1 that a rank computes again at least, on all replicas together, if 2^k
  /// replicas hold a sequence there: the least time for all sequences of any mixture of policies in
  /// its layers that keeps as little as that takes, less the time that the costs say. REQUIRES: it
  /// holds.
  [[nodiscard]] double again(std::int32_t rank, Tokens length, std::size_t k) const;

 private:
  /// A policy in all layers of a rank.
  struct Policy {
    double bytes = 0;  ///< of a token, from its forward to its backward
    double time = 0;   ///< of all sequences, more than the costs say
  };

  /// Bytes of a token on a rank that leave room for the sequence.
  [[nodiscard]] double most_bytes(Tokens length, std::size_t k) const;

  double cap_;
  std::vector<std::vector<Policy>> policies_;  ///< by rank: efficient ones, fewest bytes first
};

}  // namespace slimpack
