#include "slimpack/training/divergence.h"

#include <cmath>

namespace slimpack {
namespace {

constexpr const char* kLowerRate =
    "training has diverged; lower train.learning_rate or raise train.warmup_steps";

std::string number_text(double value) {
  if (std::isnan(value)) return "not a number";
  return std::isinf(value) ? "infinite" : fmt::format("{:.3g}, too large to square", value);
}

/// `figure` is "the gradient norm is infinite". No update is to blame where there was none.
[[noreturn]] void weights_lead_nowhere(const std::string& figure, const WeightsOrigin& origin) {
  if (origin.trained_here)
    throw Diverged(one_line(fmt::format("{}: {}", figure, kLowerRate)), false);
  throw Diverged(one_line(fmt::format("{} before any update: the cause is {}, not the learning "
                                      "rate; start from other weights",
                                      figure, origin.given)),
                 false);
}

}  // namespace

void require_sound(const StepResult& result, const WeightsOrigin& origin, double learning_rate) {
  switch (result.update) {
    case UpdateOutcome::kNone:
    case UpdateOutcome::kMade:
      return;
    case UpdateOutcome::kRefused:
      weights_lead_nowhere("the gradient norm is " + number_text(result.gradient_norm), origin);
    case UpdateOutcome::kNotFinite:
      throw Diverged(fmt::format("the update at learning rate {:.3g} made weights that are not "
                                 "finite numbers: training has diverged; lower "
                                 "train.learning_rate or raise train.epsilon",
                                 learning_rate),
                     true);
  }
}

void require_sound_evaluation(double loss, const WeightsOrigin& origin) {
  if (!std::isfinite(loss))
    weights_lead_nowhere("the evaluation loss is " + number_text(loss), origin);
}

}  // namespace slimpack
