#include "apps/slimpack/shape_to_plan.h"

#include <fmt/ranges.h>

#include <cstdio>

#include "slimpack/base/error.h"
#include "slimpack/job/configured_model.h"

namespace slimpack {

ModelShape shape_to_plan(const RunConfig& config) {
  const PlannableModel model = planned_model(config);
  if (!model.untrainable.empty())
    fmt::print(stderr,
               "model: {}: {}; a step costs the same with and without, but this version cannot "
               "train the model\n",
               config.model.config.string(),
               one_line(fmt::format("{}", fmt::join(model.untrainable, ", "))));
  return model.shape;
}

}  // namespace slimpack
