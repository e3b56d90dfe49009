// Steps: 1. Lengthen the step by quarters, from its lower bound on, until everything fits. 2.
// Bisect between the last step in which something did not fit and the first in which everything
// did.
#include "slimpack/solver/share_fit.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace slimpack {
namespace {

/// How near a step is to one that is too short when the search ends.
constexpr double kFitPrecision = 1e-4;

/// The loads of the replicas, and the highest of each group.
class GroupLoads {
 public:
  GroupLoads(const std::vector<double>& speed, double around, std::size_t levels)
      : speed_(speed), load_(speed.size(), around) {
    for (std::size_t k = 0; k < levels; ++k) {
      const std::size_t count = speed.size() >> k;
      highest_.emplace_back(count, around);
      slowest_.emplace_back(count);
      for (std::size_t g = 0; g < count; ++g) {
        const auto begin = speed.begin() + static_cast<std::ptrdiff_t>(g << k);
        slowest_[k][g] = *std::min_element(begin, begin + (std::ptrdiff_t{1} << k));
      }
    }
  }

  /// The fullest group of 2^k that has room for so much on each of its replicas, if any has.
  [[nodiscard]] std::optional<GroupPlace> fullest(std::size_t k, double load, double step) const {
    std::optional<std::size_t> best;
    for (std::size_t g = 0; g < highest_[k].size(); ++g)
      if (highest_[k][g] + load / slowest_[k][g] <= step &&
          (!best || highest_[k][g] > highest_[k][*best]))
        best = g;
    if (!best) return std::nullopt;
    return GroupPlace{k, *best << k};
  }

  void add(const GroupPlace& place, double load) {
    const std::size_t end = place.first + (std::size_t{1} << place.k);
    for (std::size_t r = place.first; r < end; ++r)
      highest_.front()[r] = load_[r] += load / speed_[r];
    for (std::size_t k = 1; k < highest_.size(); ++k)
      for (std::size_t g = place.first >> k; g < highest_[k].size() && g << k < end; ++g)
        highest_[k][g] = std::max(highest_[k - 1][2 * g], highest_[k - 1][2 * g + 1]);
  }

  /// The work that all replicas together have room for until `step`.
  [[nodiscard]] double room(double step) const {
    double sum = 0;
    for (std::size_t r = 0; r < load_.size(); ++r)
      sum += std::max(0.0, step - load_[r]) * speed_[r];
    return sum;
  }

  [[nodiscard]] const std::vector<double>& load() const { return load_; }

 private:
  const std::vector<double>& speed_;
  std::vector<double> load_;                  ///< by replica
  std::vector<std::vector<double>> highest_;  ///< [k][group]
  std::vector<std::vector<double>> slowest_;  ///< [k][group]: speed
};

class Fitting {
 public:
  explicit Fitting(const ShareProblem& problem)
      : problem_(problem), order_(problem.load.front().size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, std::greater<>(),
                             [&](std::size_t i) { return problem.load.front()[i]; });
  }

  [[nodiscard]] ShareFit shortest() const {
    double low = share_bound(problem_, 0);
    double high = low;
    std::optional<ShareFit> best = within(high);
    while (!best) {
      low = high;
      high *= 1.25;
      best = within(high);
    }
    while (high - low > kFitPrecision * low) {
      const double middle = low + (high - low) / 2;
      if (auto found = within(middle)) {
        high = middle;
        best = std::move(found);
      } else {
        low = middle;
      }
    }
    return *std::move(best);
  }

 private:
  /// The items on groups, with no step longer than this. nullopt if they do not fit.
  [[nodiscard]] std::optional<ShareFit> within(double step) const {
    GroupLoads loads(problem_.speed, problem_.around, problem_.load.size());
    ShareFit fit;
    fit.place.resize(order_.size());
    for (const std::size_t item : order_) {
      const auto place = place_of(item, step, loads);
      if (!place) return std::nullopt;
      fit.place[item] = *place;
      loads.add(*place, problem_.load[place->k][item]);
    }
    if (loads.room(step) < problem_.more) return std::nullopt;
    fit.load = loads.load();
    fit.step = step;
    return fit;
  }

  [[nodiscard]] std::optional<GroupPlace> place_of(std::size_t item, double step,
                                                   const GroupLoads& loads) const {
    for (std::size_t k = 0; k < problem_.load.size(); ++k) {
      if (problem_.step[k][item] > step) continue;
      if (const auto place = loads.fullest(k, problem_.load[k][item], step)) return place;
    }
    return std::nullopt;
  }

  const ShareProblem& problem_;
  std::vector<std::size_t> order_;  ///< items by falling load
};

}  // namespace

ShareFit share_fit(const ShareProblem& problem) {
  return Fitting(problem).shortest();
}

}  // namespace slimpack
