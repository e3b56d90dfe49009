#include "slimpack/cost/fit_warning.h"

#include <fmt/format.h>

#include "slimpack/base/human.h"

namespace slimpack {
namespace {

/// Usual profiles stay below this (docs/hardware.md).
constexpr double kLargeError = 0.3;
/// Noise explains the error if the fastest two repetitions differ by this share of it: what delayed
/// one of them may have delayed both.
constexpr double kNoise = 0.5;

std::string point_text(const LayerMeasurement& m) {
  const std::string tokens = fmt::format("{} tokens", grouped(m.tokens.count()));
  const std::string slices =
      m.slices == 1 ? tokens : fmt::format("{} slices of {}", m.slices, tokens);
  return m.prefix == Tokens(0)
             ? slices
             : fmt::format("{} after a prefix of {}", slices, grouped(m.prefix.count()));
}

}  // namespace

bool disturbed(const WorstFit& worst) {
  return worst.error > kLargeError && worst.measurement.spread >= kNoise * worst.error;
}

std::optional<std::string> fit_warning(const WorstFit& worst) {
  if (worst.error <= kLargeError) return std::nullopt;
  return fmt::format(
      "warning: the cost model is {} off its measurement of {} {}, whose repetitions differ by {}: "
      "{}",
      human_share(worst.error), worst.pass == Pass::kBackward ? "backward of" : "forward of",
      point_text(worst.measurement), human_share(worst.measurement.spread),
      disturbed(worst)
          ? "something else seems to run on this machine; measure again when it does not"
          : "a kernel seems to take times that the model cannot describe; expect predictions of "
            "such slices to be as far off");
}

}  // namespace slimpack
