// The seconds of a verification by its rows: measured at first, then followed as text grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/packflow/language/language_model.h"

namespace slimpack {

struct RowsCost {
  std::int64_t rows = 1;
  double seconds = 0;
};

class VerificationCosts {
 public:
  /// REQUIRES: rows ascend from 1, seconds are positive.
  explicit VerificationCosts(std::vector<RowsCost> measured);

  /// Linear between measured numbers of rows and beyond the last; never less than fewer rows take.
  [[nodiscard]] double seconds(std::int64_t rows) const;

  /// Learns from one more measurement. Moves the measured points beside it towards it, and all
  /// others a little, since a longer sequence costs whatever runs more. A measurement that is far
  /// off counts as a quarter off, so that a pass that was interrupted does little harm.
  void observe(std::int64_t rows, double seconds);

 private:
  /// The place of so many rows among the measured points: the last point at or before it that is
  /// not the last of all, and the share of the way from there to the next point.
  struct Place {
    std::size_t point;
    double share;
  };
  [[nodiscard]] Place place(std::int64_t rows) const;

  std::vector<RowsCost> points_;
};

/// The medians of some passes of 1, 2, 4, … rows, up to `most_rows`, after a short text. Takes
/// about a third of a second; where passes take longer three of each size, and one of a size whose
/// pass takes a third of a second by itself.
[[nodiscard]] VerificationCosts measure_verification(LanguageModel& model, std::int64_t most_rows);

}  // namespace slimpack
