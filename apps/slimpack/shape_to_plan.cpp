#include "apps/slimpack/shape_to_plan.h"

#include <fmt/ranges.h>

#include <cstdio>

#include "slimpack/base/error.h"
#include "slimpack/job/configured_model.h"

namespace slimpack {

DecoderShape shape_to_plan(const RunConfig& config) {
  const PlannableModel model = planned_model(config);
  if (!model.untrainable.empty())
    fmt::print(stderr, "model: {}: {}; {}\n", config.model.config.string(),
               one_line(fmt::format("{}", fmt::join(model.untrainable, ", "))),
               model.shape.kinds.empty()
                   ? "a step costs the same with and without, but this version cannot train the "
                     "model"
                   : "this version plans such a model, but cannot train it");
  return model.shape;
}

ModelShape shape_to_measure(const RunConfig& config) {
  const DecoderShape shape = shape_to_plan(config);
  if (shape.kinds.empty()) return shape;
  invalid_input(
      "{}: this version has no such layers to measure; fit, plan and compare tell its times from "
      "[hardware]",
      config.model.config.string());
}

}  // namespace slimpack
