// The lines that tell people of a run's steps and evaluations.
#pragma once

#include <cstdint>
#include <string>

#include "slimpack/base/units.h"
#include "slimpack/run/step_figures.h"

namespace slimpack {

/// Where a step stands in its run.
struct StepPlace {
  std::int64_t done_before = 0;  ///< steps that were done before this start
  std::int64_t steps = 0;        ///< of the whole run
  Nanos elapsed;                 ///< since this start's first step began
};

/// "step  3/20  loss 5.1234  …", with as many figures as fit into `columns`.
[[nodiscard]] std::string step_line(const StepFigures& figures, const StepPlace& place,
                                    int columns);

/// "evaluation after step 3: loss 5.1234 on 131 k tok in 40 docs, took 12.3 ms".
[[nodiscard]] std::string evaluation_line(const EvaluationFigures& figures);

}  // namespace slimpack
