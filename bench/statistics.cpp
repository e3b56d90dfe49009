#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "slimpack/base/median.h"

namespace slimpack::bench {
namespace {

/// The way with the least sum of all turns but one.
std::size_t best_of_other_turns(const WayTurns& ways, std::size_t turn) {
  const auto others = [&](const std::vector<double>& way) {
    return std::reduce(way.begin(), way.end()) - way[turn];
  };
  return static_cast<std::size_t>(std::ranges::min_element(ways, {}, others) - ways.begin());
}

/// The mean over the turns of `quotient` − 1.
template <class Quotient>
double mean_loss(const WayTurns& ways, Quotient quotient) {
  double sum = 0;
  for (std::size_t turn = 0; turn < ways.front().size(); ++turn) sum += quotient(turn) - 1;
  return sum / static_cast<double>(ways.front().size());
}

}  // namespace

Errors errors_of(std::span<const Compared> all) {
  if (all.empty()) return {};
  Errors errors{.count = static_cast<std::int64_t>(all.size())};
  std::vector<double> sizes;
  for (const Compared& one : all) {
    sizes.push_back(std::abs(one.error()));
    errors.mean += sizes.back();
    errors.bias += one.error();
  }
  errors.mean /= static_cast<double>(all.size());
  errors.bias /= static_cast<double>(all.size());
  errors.worst = std::ranges::max(sizes);
  errors.median = median(std::move(sizes));
  return errors;
}

RankedPairs& RankedPairs::operator+=(const RankedPairs& other) {
  concordant += other.concordant;
  discordant += other.discordant;
  tied_measured += other.tied_measured;
  tied_predicted += other.tied_predicted;
  return *this;
}

double RankedPairs::tau() const {
  const auto ordered = static_cast<double>(concordant + discordant);
  const double by_measured = ordered + static_cast<double>(tied_predicted);
  const double by_predicted = ordered + static_cast<double>(tied_measured);
  if (by_measured == 0 || by_predicted == 0) return 0;
  return static_cast<double>(concordant - discordant) / std::sqrt(by_measured * by_predicted);
}

RankedPairs ranked_pairs(std::span<const Compared> group) {
  RankedPairs pairs;
  for (std::size_t a = 0; a < group.size(); ++a)
    for (std::size_t b = a + 1; b < group.size(); ++b) {
      const double measured = group[a].measured - group[b].measured;
      const double predicted = group[a].predicted - group[b].predicted;
      if (measured == 0 && predicted == 0) continue;
      if (measured == 0)
        ++pairs.tied_measured;
      else if (predicted == 0)
        ++pairs.tied_predicted;
      else if ((measured > 0) == (predicted > 0))
        ++pairs.concordant;
      else
        ++pairs.discordant;
    }
  return pairs;
}

double choice_loss(std::span<const Compared> group) {
  const double chosen = std::ranges::min_element(group, {}, &Compared::predicted)->measured;
  return chosen / std::ranges::min_element(group, {}, &Compared::measured)->measured - 1;
}

double held_out_loss(const WayTurns& ways, std::size_t picked) {
  return mean_loss(ways, [&](std::size_t turn) {
    return ways[picked][turn] / ways[best_of_other_turns(ways, turn)][turn];
  });
}

double loss_of_measuring(const WayTurns& ways) {
  return mean_loss(ways, [&](std::size_t turn) {
    const auto in_turn = [&](const std::vector<double>& way) { return way[turn]; };
    return ways[best_of_other_turns(ways, turn)][turn] /
           in_turn(*std::ranges::min_element(ways, {}, in_turn));
  });
}

}  // namespace slimpack::bench
