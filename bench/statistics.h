// How far predictions are from measurements, and whether they rank as measurements do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slimpack::bench {

/// A prediction and the measurement that it is held against, both above 0.
struct Compared {
  double predicted = 0;
  double measured = 0;

  [[nodiscard]] double error() const { return predicted / measured - 1; }  ///< with its sign
};

struct Errors {
  std::int64_t count = 0;
  double mean = 0;    ///< of |error|
  double median = 0;  ///< of |error|
  double worst = 0;   ///< of |error|
  double bias = 0;    ///< mean of error
};
/// All 0 without comparisons.
[[nodiscard]] Errors errors_of(std::span<const Compared> all);

/// Pairs of measurements that a ranking is asked for.
struct RankedPairs {
  std::int64_t concordant = 0;
  std::int64_t discordant = 0;
  std::int64_t tied_measured = 0;   ///< equal measurements, different predictions
  std::int64_t tied_predicted = 0;  ///< the other way round

  RankedPairs& operator+=(const RankedPairs& other);
  /// Kendall's tau-b: (concordant − discordant) ÷ √(pairs not tied by one · pairs not tied by the
  /// other). Pairs that both tie say nothing. 0 without pairs.
  [[nodiscard]] double tau() const;
};
/// All pairs of a group. Cost: O(n²).
[[nodiscard]] RankedPairs ranked_pairs(std::span<const Compared> group);

/// How much longer than the shortest measurement that of the least prediction is: 0.05 = 5%. If
/// several predictions are least, the first counts. REQUIRES: group is not empty.
[[nodiscard]] double choice_loss(std::span<const Compared> group);

/// Seconds by way and turn, of ways that were measured in the same turns.
using WayTurns = std::vector<std::vector<double>>;

/// How much longer the picked way takes than the one that measuring chooses. In each turn that is
/// the way with the least mean of the other turns, so the turn's noise has no part in the choice;
/// the mean over the turns. Below 0 if the picked way is shorter. choice_loss sets the picked way
/// against the least of all measurements, which is often a lucky one. REQUIRES: at least one way
/// and two turns.
[[nodiscard]] double held_out_loss(const WayTurns& ways, std::size_t picked);

/// How much longer the way that measuring chooses (held_out_loss) takes in each turn than the
/// shortest of that turn; the mean over the turns. So much a choice loses to noise alone.
/// REQUIRES: as held_out_loss.
[[nodiscard]] double loss_of_measuring(const WayTurns& ways);

}  // namespace slimpack::bench
