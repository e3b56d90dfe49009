// Sweeps of figures that a test chooses.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/report/sweep_report.h"

namespace slimpack::testing {

/// A step of 1,000 tokens with this makespan, bubble and overhead.
inline SweepFigures figures(std::int64_t makespan, double bubble = 0.1, double overhead = 0.2) {
  SweepFigures f;
  f.tokens = Tokens(1000);
  f.predicted = {Nanos(makespan), bubble, Bytes(1 << 20)};
  f.forward_packs = 4;
  f.backward_packs = 3;
  f.slices = 12;
  f.overhead = overhead;
  return f;
}

/// Points in the order of combinations(axes); none = it does not fit.
inline SweepReport made_up(std::vector<SweepAxis> axes,
                           const std::vector<std::optional<SweepFigures>>& all) {
  SweepReport report{std::move(axes), {}};
  for (std::vector<std::size_t>& at : combinations(report.axes)) {
    const auto& of_point = all.at(report.points.size());
    report.points.push_back({std::move(at), of_point, of_point ? "" : "needs more than there is"});
  }
  return report;
}

inline SweepAxis packs(std::vector<std::string> values) {
  return {"packs", "MicroPacks of a pass", std::move(values), Finer::kHigher};
}

}  // namespace slimpack::testing
