// Medians of measurements.
#pragma once

#include <vector>

namespace slimpack {

/// The middle value; the mean of the middle two for an even count. REQUIRES: values is not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace slimpack
