// How likely a guess is to be right, by the draft's own probability and by what was right before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// Counts guesses whose parents were right, in bins of the draft's probability and of depth: how
/// many the draft expected to be right, and how many were. What was long ago counts less.
class Acceptance {
 public:
  Acceptance();

  /// Of a guess after a right row. `probability`: the draft's, given that row. Without counts it
  /// is the draft's own.
  [[nodiscard]] double of(double probability, std::int64_t depth) const;

  /// Told of a verified tree and its right rows.
  void learn(const DraftTree& verified, std::span<const std::int32_t> path);

 private:
  static constexpr std::size_t kBins = 12, kDepths = 4;
  struct Count {
    double expected = 0;
    double right = 0;
  };

  [[nodiscard]] static std::size_t bin(double probability);
  [[nodiscard]] static std::size_t level(std::int64_t depth);
  void update_factors();

  std::array<std::array<Count, kDepths>, kBins> counts_{};
  std::array<std::array<double, kDepths>, kBins> factors_{};  ///< right ÷ expected, smoothed
};

}  // namespace slimpack
