// What a verification costs by its rows: measured at first, then followed as text grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

  /// Told of one more measurement. Moves the measured points beside it towards it, and all others
  /// a little, since a longer sequence costs whatever runs more. One that is far off counts as a
  /// quarter off, so that a pass that was interrupted does little harm.
  void observe(std::int64_t rows, double seconds);

 private:
  /// Of rows: the measured point at or before it that is not the last, and how far it is from there
  /// to the next one.
  struct Place {
    std::size_t point;
    double share;
  };
  [[nodiscard]] Place place(std::int64_t rows) const;

  std::vector<RowsCost> points_;
};

}  // namespace slimpack
