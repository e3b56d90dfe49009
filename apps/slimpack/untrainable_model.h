// Tells users of commands that plan or measure steps which features of a model cannot be trained.
#pragma once

#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// A line on stderr that names the features that cannot be trained; nothing where there are none.
void tell_untrainable(const RunConfig& config, const PlannableModel& model);

}  // namespace slimpack
