// Comparison turn by turn. Ways to run a step take turns, and a machine whose speed drifts from
// minute to minute is most alike within a turn; quotients of medians may set a slow moment of one
// way against a fast one of the other.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"

namespace slimpack {

/// factor · a[turn] ÷ b[turn]. REQUIRES: as many of both.
[[nodiscard]] inline std::vector<double> by_turn(const std::vector<double>& a,
                                                 const std::vector<double>& b, double factor = 1) {
  SLIMPACK_CHECK(a.size() == b.size());
  std::vector<double> quotients;
  for (std::size_t turn = 0; turn < a.size(); ++turn)
    quotients.push_back(factor * a[turn] / b[turn]);
  return quotients;
}

/// "0.98 (0.97, 0.98, 1.01)": the median and each turn's. REQUIRES: not empty.
[[nodiscard]] inline std::string turns_text(const std::vector<double>& quotients) {
  return fmt::format("{:.3f} ({:.3f})", median(quotients), fmt::join(quotients, ", "));
}

}  // namespace slimpack
