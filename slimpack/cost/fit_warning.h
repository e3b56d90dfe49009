// Fit warning: what to tell of a profile whose cost model is far from its measurements.
#pragma once

#include <optional>
#include <string>

#include "slimpack/cost/fit.h"

namespace slimpack {

/// The measurement from which a layer's fit is furthest.
struct WorstFit {
  LayerMeasurement measurement;
  Pass pass = Pass::kForward;
  double error = 0;  ///< |fitted / measured − 1|
};

/// One line when the error is above 30%: how large it is, where, and what is the likely cause.
/// Measurements that do not repeat speak of other load on the machine; those that do, of a kernel
/// whose times have another form than the cost model's. nullopt otherwise.
[[nodiscard]] std::optional<std::string> fit_warning(const WorstFit& worst);

}  // namespace slimpack
