// Fit warning: tells users that a profile's cost model is far from its measurements.
#pragma once

#include <optional>
#include <string>

#include "slimpack/cost/fit.h"

namespace slimpack {

/// The measurement from which a layer's fit is furthest.
struct WorstFit {
  LayerMeasurement measurement;
  Pass pass = Pass::kForward;
  double error = 0;  ///< FitErrors::largest
};

/// Whether the fit is more than 30% off because other load disturbed the measurement.
[[nodiscard]] bool disturbed(const WorstFit& worst);

/// One line with the error, its measurement and the likely cause; nullopt for an error of 30% or
/// less. The cause is other load on the machine if the measurement does not repeat. If it does, it
/// is a kernel whose times have another form than the cost model.
[[nodiscard]] std::optional<std::string> fit_warning(const WorstFit& worst);

}  // namespace slimpack
