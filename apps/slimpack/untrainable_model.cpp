#include "apps/slimpack/untrainable_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "slimpack/base/error.h"

namespace slimpack {

void tell_untrainable(const RunConfig& config, const PlannableModel& model) {
  if (model.untrainable.empty()) {
    if (config.parallel.tp > 1 && model.shape.kinds.front().experts > 0)
      fmt::print(
          stderr,
          "model: {}: experts shared out over parallel.tp = {} ranks; this version plans such "
          "a job, but cannot train it: it trains with parallel.tp = 1\n",
          config.model.config.string(), config.parallel.tp);
    return;
  }
  const Decoder& shape = model.shape;
  const bool states = std::ranges::any_of(shape.kinds, &LayerShape::has_state);
  fmt::print(stderr, "model: {}: {}; {}\n", config.model.config.string(),
             one_line(fmt::format("{}", fmt::join(model.untrainable, ", "))),
             shape.config.empty()
                 ? "a step costs the same with and without, but this version cannot train the model"
             : states ? "'slimpack train' cannot train such a model, so steps are planned for "
                        "slimpack.torch.pipeline, which can"
                      : "this version plans such a model, but cannot train it");
}

}  // namespace slimpack
