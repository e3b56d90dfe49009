#include "slimpack/packflow/speculate/acceptance.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace slimpack {
namespace {

/// Right guesses that a prior counts for.
constexpr double kPrior = 2;
/// Of each pass to the one after it.
constexpr double kDecay = 0.998;

}  // namespace

Acceptance::Acceptance() {
  update_factors();
}

std::size_t Acceptance::bin(double probability) {
  constexpr std::array<double, kBins - 1> kEnds{0.003, 0.01, 0.03, 0.1, 0.2, 0.35,
                                                0.5,   0.65, 0.8,  0.9, 0.97};
  return static_cast<std::size_t>(std::ranges::upper_bound(kEnds, probability) - kEnds.begin());
}

std::size_t Acceptance::level(std::int64_t depth) {
  return depth <= 2 ? static_cast<std::size_t>(depth - 1) : depth <= 4 ? 2 : 3;
}

double Acceptance::of(double probability, std::int64_t depth) const {
  return std::min(1.0, probability * factors_[bin(probability)][level(depth)]);
}

void Acceptance::learn(const DraftTree& verified, std::span<const std::int32_t> path) {
  if (verified.size() == 1) return;
  for (auto& depths : counts_)
    for (Count& count : depths) count.expected *= kDecay, count.right *= kDecay;
  std::vector<bool> right(verified.size());
  for (const std::int32_t row : path) right[static_cast<std::size_t>(row)] = true;
  for (std::size_t row = 1; row < verified.size(); ++row) {
    const auto parent = static_cast<std::size_t>(verified.parents[row]);
    if (!right[parent]) continue;
    const double p = std::exp(verified.log_probability[row] - verified.log_probability[parent]);
    Count& count = counts_[bin(p)][level(verified.depths[row])];
    count.expected += p;
    if (right[row]) count.right += 1;
  }
  update_factors();
}

/// A bin's factor at one depth leans on that of all depths, and this on 1.
void Acceptance::update_factors() {
  for (std::size_t b = 0; b < kBins; ++b) {
    Count all;
    for (const Count& count : counts_[b]) all.expected += count.expected, all.right += count.right;
    const double factor = (all.right + kPrior) / (all.expected + kPrior);
    for (std::size_t d = 0; d < kDepths; ++d)
      factors_[b][d] = (counts_[b][d].right + kPrior * factor) / (counts_[b][d].expected + kPrior);
  }
}

}  // namespace slimpack
