#include "slimpack/packflow/speculate/acceptance.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace slimpack {
namespace {

/// Right guesses that a prior counts for.
constexpr double kPrior = 2;
/// The weight that counts keep from each pass to the one after it.
constexpr double kAcceptanceDecay = 0.998;

double probability_of(const DraftTree& tree, std::size_t row) {
  const double p = std::exp(tree.conditional_log_probability(row));
  return p >= 0 ? p : 0;  // what no number is, becomes 0
}

}  // namespace

Acceptance::Acceptance() {
  factors_.fill(factors_of({}));
}

std::size_t Acceptance::kind(const DraftTree& tree, std::size_t row) {
  return 2 * static_cast<std::size_t>(tree.guessers[row]) + (tree.ranks[row] == 0 ? 0 : 1);
}

std::size_t Acceptance::bin(double probability) {
  constexpr std::array<double, kBins - 1> kEnds{0.003, 0.01, 0.03, 0.1, 0.2, 0.35,
                                                0.5,   0.65, 0.8,  0.9, 0.97};
  return static_cast<std::size_t>(std::ranges::upper_bound(kEnds, probability) - kEnds.begin());
}

std::size_t Acceptance::level(std::int64_t depth) {
  return depth <= 2 ? static_cast<std::size_t>(depth - 1) : depth <= 4 ? 2 : 3;
}

double Acceptance::of(const DraftTree& tree, std::size_t row) const {
  const double p = probability_of(tree, row);
  const Factors& factors = factors_[kind(tree, row)];
  return std::min(1.0, p * factors[bin(p)][level(tree.depths[row])]);
}

void Acceptance::learn(const DraftTree& verified, std::span<const std::int32_t> path) {
  if (verified.size() == 1) return;
  for (Counts& counts : counts_)
    for (auto& depths : counts)
      for (Count& count : depths)
        count.expected *= kAcceptanceDecay, count.right *= kAcceptanceDecay;
  std::vector<bool> right(verified.size());
  for (const std::int32_t row : path) right[static_cast<std::size_t>(row)] = true;
  for (std::size_t row = 1; row < verified.size(); ++row) {
    if (!right[static_cast<std::size_t>(verified.parents[row])]) continue;
    const double p = probability_of(verified, row);
    Counts& counts = counts_[kind(verified, row)];
    Count& count = counts[bin(p)][level(verified.depths[row])];
    count.expected += p;
    if (right[row]) count.right += 1;
  }
  std::ranges::transform(counts_, factors_.begin(), factors_of);
}

/// A bin's factor at one depth leans on that of all depths, and this on 1.
Acceptance::Factors Acceptance::factors_of(const Counts& counts) {
  Factors factors{};
  for (std::size_t b = 0; b < kBins; ++b) {
    Count all;
    for (const Count& count : counts[b]) all.expected += count.expected, all.right += count.right;
    const double factor = (all.right + kPrior) / (all.expected + kPrior);
    for (std::size_t d = 0; d < kDepths; ++d)
      factors[b][d] = (counts[b][d].right + kPrior * factor) / (counts[b][d].expected + kPrior);
  }
  return factors;
}

}  // namespace slimpack
