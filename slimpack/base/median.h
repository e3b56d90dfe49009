// Medians of measurements.
#pragma once

#include <vector>

namespace slimpack {

/// Of an even count the mean of the middle two. REQUIRES: not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace slimpack
