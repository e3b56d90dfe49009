// Whole sequences: the time of a step's sequences, each in one slice.
#pragma once

#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Times are sums over all sequences. Without windows they follow from three sums of the lengths.
class WholeSequences {
 public:
  /// Keeps a reference. Cost: O(sequences).
  explicit WholeSequences(const SequenceLengths& lengths);

  /// Σ cost(sequence), in nanoseconds; without per_pack. Cost: O(1), with windows O(sequences).
  [[nodiscard]] double time(const PackCost& cost) const;

 private:
  const SequenceLengths& lengths_;
  double tokens_ = 0;
  double pairs_ = 0;
};

}  // namespace slimpack
