#include "slimpack/planner/packed_step.h"

#include <algorithm>

#include "slimpack/baselines/packed.h"

namespace slimpack {

PlannedStep packed_step(const StepProblem& problem, Tokens context) {
  PlannedStep step;
  step.plan.lengths = problem.lengths;
  step.plan.layout = problem.layout;
  step.plan.replicas.resize(static_cast<std::size_t>(problem.replicas));
  step.speed = problem.speed;
  const PackPlan packs = packed_plan(problem.lengths, all_sequences(problem.lengths), context);
  for (std::size_t p = 0; p < packs.forward.size(); ++p) {
    ReplicaPlan& replica = step.plan.replicas[p % step.plan.replicas.size()];
    replica.packs.forward.push_back(packs.forward[p]);
    for (const Slice& slice : packs.forward[p].slices) replica.sequences.push_back(slice.sequence);
  }
  for (ReplicaPlan& replica : step.plan.replicas) {
    replica.packs.backward = replica.packs.forward;
    std::sort(replica.sequences.begin(), replica.sequences.end());
    step.schedules.push_back(one_f_one_b(replica.packs, problem.layout.stages()));
  }
  return step;
}

}  // namespace slimpack
