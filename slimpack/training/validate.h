// Validates predictions: trains some steps, each several times, beside what was predicted.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/planner/step_errors.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

struct ValidationRequest {
  RunConfig config;
  std::int64_t steps = 3;
  std::int64_t repetitions = 3;  ///< of each step, after a run that does not count
};

/// The steps of the run, planned as training plans them. Ranks are threads of this process. Writes
/// nothing. Calls `done` after every run of a step. Any thread may call `should_stop`. Throws as
/// train(), and Interrupted.
[[nodiscard]] std::vector<StepErrors> validate(const ValidationRequest& request,
                                               TrainingListener& listener,
                                               const std::function<bool()>& should_stop,
                                               const std::function<void()>& done);

}  // namespace slimpack
