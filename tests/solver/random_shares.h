// Random problems of sharing items out to groups, and their optimum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/solver/share_bound.h"

namespace slimpack {

/// The least step of all ways to put the items on groups of neighbours.
class EveryShare {
 public:
  explicit EveryShare(const ShareProblem& problem)
      : problem_(problem), load_(problem.speed.size(), 0.0) {}

  double least_step() {
    place(0, 0);
    return least_;
  }

 private:
  void place(std::size_t item, double step) {
    if (item == problem_.load.front().size()) {
      for (std::size_t r = 0; r < load_.size(); ++r)
        step = std::max(step, problem_.around + load_[r] / problem_.speed[r]);
      least_ = std::min(least_, step);
      return;
    }
    for (std::size_t k = 0; k < problem_.load.size(); ++k)
      for (std::size_t first = 0; first + (std::size_t{1} << k) <= load_.size();
           first += std::size_t{1} << k) {
        for (const auto& [load, below] : ways(k, item)) {
          const std::vector<double> before = load_;
          for (std::size_t r = first; r < first + (std::size_t{1} << k); ++r) load_[r] += load;
          place(item + 1, std::max({step, problem_.step[k][item], below}));
          load_ = before;
        }
      }
  }

  struct Way {
    double load;
    double step;  ///< at least
  };

  /// An item may spend what one of its entries says: then no entry that says more binds.
  [[nodiscard]] std::vector<Way> ways(std::size_t k, std::size_t item) const {
    std::vector<Way> out{{problem_.load[k][item], 0}};
    if (problem_.cut.empty()) return out;
    for (const CutLoad& cut : problem_.cut[k][item]) {
      out.back().step = cut.below;
      out.push_back({cut.load, 0});
    }
    return out;
  }

  const ShareProblem& problem_;
  std::vector<double> load_;
  double least_ = std::numeric_limits<double>::infinity();
};

inline double least_step_of_all(const ShareProblem& problem) {
  return EveryShare(problem).least_step();
}

/// Up to three entries an item: the more slices, the more load and the shorter the step.
inline std::vector<std::vector<CutLoad>> random_cuts(Rng& rng, const std::vector<double>& loads,
                                                     double around) {
  std::vector<std::vector<CutLoad>> out;
  for (double load : loads) {
    double below = around + load * (1 + 4 * rng.uniform());
    auto& cuts = out.emplace_back();
    for (std::uint64_t count = rng.below(4); count > 0; --count) {
      load *= 1 + rng.uniform();
      cuts.push_back({below, load});
      below *= rng.uniform();
    }
  }
  return out;
}

/// cut: short steps take items in more slices.
inline ShareProblem random_shares(Rng& rng, bool cut = false) {
  ShareProblem problem;
  problem.around = rng.below(2) == 0 ? 0 : rng.uniform();
  problem.speed.assign(1 + rng.below(4), 1.0);
  if (rng.below(3) == 0)
    for (double& speed : problem.speed) speed = 0.5 + rng.uniform();
  const std::size_t items = 1 + rng.below(cut ? 3 : 5);
  const double fastest = std::ranges::max(problem.speed);
  std::vector<double> load;
  // Some loads are equal, or fill a replica to the rounding.
  for (std::size_t i = 0; i < items; ++i)
    load.push_back(rng.below(2) == 0 ? 0.01 + rng.uniform()
                                     : 1.0 / static_cast<double>(1 + rng.below(4)));
  for (std::size_t k = 0; std::size_t{1} << k <= problem.speed.size(); ++k) {
    const auto replicas = static_cast<double>(std::size_t{1} << k);
    auto& loads = problem.load.emplace_back();
    auto& steps = problem.step.emplace_back();
    for (std::size_t i = 0; i < items; ++i) {
      loads.push_back(load[i] / replicas * (k > 0 && rng.below(2) == 0 ? 1 + rng.uniform() : 1));
      if (k > 0) loads.back() = std::max(loads.back(), problem.load[k - 1][i] / 2);
      steps.push_back(problem.around + loads.back() / fastest * (1 + rng.uniform()));
    }
    if (cut) problem.cut.push_back(random_cuts(rng, loads, problem.around));
  }
  return problem;
}

/// A problem of one replica or of groups, in which an item's step is its load.
inline ShareProblem shares_of(std::vector<std::vector<double>> load, std::size_t replicas) {
  ShareProblem problem{std::move(load), {}, std::vector<double>(replicas, 1.0)};
  problem.step = problem.load;
  return problem;
}

}  // namespace slimpack
