// Plans that need no thought, for tests of schedules.
#pragma once

#include "slimpack/plan/plan.h"

namespace slimpack::testing {

/// Whole sequences of one token, the same packs forward and backward, on one replica.
inline StepPlan whole_packs(int packs, std::int32_t stages) {
  StepPlan plan;
  for (std::int32_t s = 0; s <= stages; ++s) plan.layout.layer_begin.push_back(s);
  ReplicaPlan& replica = plan.replicas.emplace_back();
  for (int p = 0; p < packs; ++p) {
    const SequenceId q(plan.lengths.size());
    plan.lengths.emplace_back(1);
    replica.sequences.push_back(q);
    replica.packs.forward.push_back({{{q, Tokens(0), Tokens(1)}}});
  }
  replica.packs.backward = replica.packs.forward;
  return plan;
}

}  // namespace slimpack::testing
