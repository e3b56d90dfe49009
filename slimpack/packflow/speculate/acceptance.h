// How likely a guess is to be right, by the draft's own probability and by what was right before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// Counts guesses whose parents were right, by who made them and whether they were the draft's
/// first guess, in bins of the draft's probability and of depth: how many the draft expected to be
/// right, and how many were. Deeper than a head was trained for, its probabilities are alike while
/// its first guess is still right. Guesses of long ago count less.
class Acceptance {
 public:
  Acceptance();

  /// The probability that the guess of a row is right, given that the row before it is. Without
  /// counts it is the draft's own probability; 0 where that is no number.
  [[nodiscard]] double of(const DraftTree& tree, std::size_t row) const;

  /// Learns from a verified tree and its right rows.
  void learn(const DraftTree& verified, std::span<const std::int32_t> path);

 private:
  static constexpr std::size_t kBins = 12, kDepths = 4, kKinds = 2 * kGuessers;
  struct Count {
    double expected = 0;
    double right = 0;
  };

  using Counts = std::array<std::array<Count, kDepths>, kBins>;
  using Factors = std::array<std::array<double, kDepths>, kBins>;  ///< right ÷ expected, smoothed

  /// The kind of a guess, by who guessed and whether it was the first guess.
  [[nodiscard]] static std::size_t kind(const DraftTree& tree, std::size_t row);
  [[nodiscard]] static std::size_t bin(double probability);
  [[nodiscard]] static std::size_t level(std::int64_t depth);
  [[nodiscard]] static Factors factors_of(const Counts& counts);

  std::array<Counts, kKinds> counts_{};
  std::array<Factors, kKinds> factors_{};
};

}  // namespace slimpack
