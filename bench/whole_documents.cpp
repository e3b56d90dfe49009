#include "bench/whole_documents.h"

#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/lower.h"

namespace slimpack {

RatedPlan whole_documents(const SequenceLengths& lengths, const Costs& cost) {
  RatedPlan step;
  step.plan.lengths = lengths;
  step.plan.layout = balanced_layout(cost, lengths, 1);
  ReplicaPlan& replica = step.plan.replicas.emplace_back();
  replica.sequences = all_sequences(lengths);
  for (const SequenceId q : replica.sequences)
    replica.packs.forward.push_back({{{q, Tokens(0), lengths[q.index()]}}});
  replica.packs.backward = replica.packs.forward;
  step.schedules.push_back(one_f_one_b(replica.packs, 1));
  step.lowered = lower(step.plan, step.schedules);
  step.prediction = predict(step, cost);
  return step;
}

}  // namespace slimpack
