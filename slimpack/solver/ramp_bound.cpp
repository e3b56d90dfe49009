#include "slimpack/solver/ramp_bound.h"

#include <algorithm>
#include <cmath>

#include "slimpack/base/error.h"

namespace slimpack {

double ramp_bound(const RampPass& pass, double work) {
  SLIMPACK_CHECK(pass.overhead >= 0 && work >= 0);
  const double hops = pass.first + pass.between;
  const double each = std::min(1.0, pass.first) * pass.overhead;
  if (each <= 0 || work <= 0) return (1 + hops) * pass.overhead;
  const double growth = std::max(0.0, pass.most_other + 1 - pass.first) / hops;
  // With n MicroPacks the wait is work · growth · hops / ((1 + growth)ⁿ − 1).
  const auto wait = [&](double n) {
    const double reached = growth * n < 1e-6 ? n : std::expm1(n * std::log1p(growth)) / growth;
    return hops * work / reached;
  };
  double least = wait(1);
  for (double n = 2; n * each - each < least; ++n)
    least = std::min(least, wait(n) + (n - 1) * each);
  return (1 + hops) * pass.overhead + least;
}

}  // namespace slimpack
