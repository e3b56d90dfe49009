// One replica's packs of whole sequences.
#pragma once

#include <vector>

#include "slimpack/baselines/packed.h"

namespace slimpack::testing {

/// Best-fit packs of at most `capacity` tokens; forward and backward are the same packs in the
/// order in which they were opened. Throws as pack_sequences.
inline PackPlan packed_plan(const SequenceLengths& lengths,
                            const std::vector<SequenceId>& sequences, Tokens capacity) {
  PackPlan plan;
  for (const auto& pack : pack_sequences(lengths, sequences, capacity, Packing::kBestFit))
    plan.forward.push_back(whole_pack(lengths, pack));
  plan.backward = plan.forward;
  return plan;
}

}  // namespace slimpack::testing
