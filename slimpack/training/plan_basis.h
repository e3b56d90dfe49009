// What all plans of a run are made with.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/run_state.h"
#include "slimpack/training/training_listener.h"
#include "slimpack/training/training_start.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct PlanBasis {
  Costs cost;
  StageLayout layout;
};

/// Those of the checkpoint where the run goes on from one (`saved`, its state) with the same ranks.
/// Else costs by configuration, or measured where it names no source, and the layout that balances
/// `lengths`, of the first step. The first process decides; the others take what it has found.
[[nodiscard]] PlanBasis choose_plan_basis(const RunConfig& config, const ModelShape& shape,
                                          const TrainingStart& start, const RunState* saved,
                                          const SequenceLengths& lengths,
                                          const JobAgreement& agreement,
                                          TrainingListener& listener);

}  // namespace slimpack
