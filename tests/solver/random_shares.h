// Random problems of sharing items out to groups, and their optimum.
#pragma once

#include <algorithm>
#include <cstddef>
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
        const std::vector<double> before = load_;
        for (std::size_t r = first; r < first + (std::size_t{1} << k); ++r)
          load_[r] += problem_.load[k][item];
        place(item + 1, std::max(step, problem_.step[k][item]));
        load_ = before;
      }
  }

  const ShareProblem& problem_;
  std::vector<double> load_;
  double least_ = std::numeric_limits<double>::infinity();
};

inline double least_step_of_all(const ShareProblem& problem) {
  return EveryShare(problem).least_step();
}

inline ShareProblem random_shares(Rng& rng) {
  ShareProblem problem;
  problem.around = rng.below(2) == 0 ? 0 : rng.uniform();
  problem.speed.assign(1 + rng.below(4), 1.0);
  if (rng.below(3) == 0)
    for (double& speed : problem.speed) speed = 0.5 + rng.uniform();
  const std::size_t items = 1 + rng.below(5);
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
