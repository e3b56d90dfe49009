#include "slimpack/planner/packed_step.h"

#include "slimpack/baselines/baseline.h"

namespace slimpack {

PlannedStep packed_step(const StepProblem& problem, Tokens context) {
  PlannedStep step;
  step.plan = baseline_plan(baseline_named("best-fit"), {problem.lengths, problem.cost,
                                                         problem.layout, problem.replicas, context})
                  .plan;
  step.plan.recompute = problem.cost.recompute;
  step.speed = problem.speed;
  for (const ReplicaPlan& replica : step.plan.replicas)
    step.schedules.push_back(one_f_one_b(replica.packs, problem.layout.stages()));
  return step;
}

}  // namespace slimpack
