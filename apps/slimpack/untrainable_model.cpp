#include "apps/slimpack/untrainable_model.h"

#include <fmt/ranges.h>

#include <cstdio>

#include "slimpack/base/error.h"

namespace slimpack {

void tell_untrainable(const RunConfig& config, const PlannableModel& model) {
  if (model.untrainable.empty()) return;
  fmt::print(stderr, "model: {}: {}; {}\n", config.model.config.string(),
             one_line(fmt::format("{}", fmt::join(model.untrainable, ", "))),
             model.shape.config.empty()
                 ? "a step costs the same with and without, but this version cannot train the model"
                 : "this version plans such a model, but cannot train it");
}

}  // namespace slimpack
