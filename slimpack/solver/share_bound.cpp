// Steps: 1. Double the step until nothing proves it too short. 2. Bisect between the last step that
// was too short and the first that was not.
#include "slimpack/solver/share_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
/// Sums that are more by less than this share may be rounding.
constexpr double kRounding = 1e-9;
/// How near the least step is found.
constexpr double kPrecision = 1e-12;

/// A dual feasible function: of shares that fit into a bin together, the values sum up to at
/// most 1.
class ShareFunction {
 public:
  /// Shares below `least` count nothing, those above 1 − least count as a bin. REQUIRES: ≤ 1/2.
  static ShareFunction of_large(double least) { return ShareFunction(least, 0); }
  /// Steps of 1/k: a bin has room for only k shares above 1/(k + 1).
  static ShareFunction of_steps(int k) { return ShareFunction(0, k); }

  /// Shares at an edge count as on the side where they count less: they may be there by rounding.
  [[nodiscard]] double operator()(double share) const {
    if (steps_ > 0) return std::floor(share * (steps_ + 1) - kRounding) / steps_;
    if (share > 1 - least_ + kRounding) return 1;
    return share < least_ + kRounding ? 0 : share;
  }

 private:
  ShareFunction(double least, int steps) : least_(least), steps_(steps) {}

  double least_;
  int steps_;
};

std::vector<ShareFunction> share_functions() {
  std::vector<ShareFunction> out;
  for (const double least : {0.5, 0.4, 1.0 / 3, 0.25, 0.2, 0.125, kLeastShare})
    out.push_back(ShareFunction::of_large(least));
  for (int k = 1; k < 8; ++k) out.push_back(ShareFunction::of_steps(k));
  return out;
}

class Shares {
 public:
  Shares(const ShareProblem& problem, double known) : problem_(problem), known_(known) {
    for (const double speed : problem.speed) speed_ += speed;
    const auto [slowest, fastest] = std::ranges::minmax_element(problem.speed);
    fastest_ = *fastest;
    if (*slowest == *fastest) functions_ = share_functions();
    order_.resize(problem.load.front().size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto& alone = problem.load.front();
    std::ranges::stable_sort(order_,
                             [&](std::size_t a, std::size_t b) { return alone[a] > alone[b]; });
    for (const std::size_t i : order_)
      if (problem.step.front()[i] > known)
        heavy_.push_back(i);
      else
        light_ += alone[i];
  }

  [[nodiscard]] double least_step() const {
    if (!too_short(known_)) return known_;
    double low = known_;
    double high = std::max(2 * known_, 1.0);
    while (too_short(high)) {
      low = high;
      high *= 2;
      if (high == kNoBound) return low;
    }
    while (high - low > kPrecision * low) {
      const double middle = low + (high - low) / 2;
      (too_short(middle) ? low : high) = middle;
    }
    return low;
  }

 private:
  /// Whether no assignment gives a step of so much. `step` ≥ known_.
  [[nodiscard]] bool too_short(double step) const {
    const double room = step - problem_.around;
    if (room <= 0) return true;
    double work = problem_.more + light_;
    for (const std::size_t i : heavy_) work += least(i, step, [](double load) { return load; });
    if (work > speed_ * room * (1 + kRounding)) return true;
    const auto bins = static_cast<double>(problem_.speed.size());
    return std::ranges::any_of(functions_, [&](const ShareFunction& function) {
      return filled(function, step, fastest_ * room) > bins * (1 + kRounding);
    });
  }

  /// The least of 2^k · of(load) over the groups that may run the item.
  template <class Of>
  [[nodiscard]] double least(std::size_t item, double step, Of of) const {
    double best = kNoBound;
    double replicas = 1;
    for (std::size_t k = 0; k < problem_.load.size(); ++k, replicas *= 2) {
      if (problem_.step[k][item] > step) continue;
      const double load = load_within(k, item, step);
      if (load > fastest_ * (step - problem_.around) * (1 + kRounding)) continue;
      best = std::min(best, replicas * of(load));
    }
    return best;
  }

  /// The time that each replica of the group spends on the item in such a step.
  [[nodiscard]] double load_within(std::size_t k, std::size_t item, double step) const {
    double load = problem_.load[k][item];
    if (problem_.cut.empty()) return load;
    for (const CutLoad& cut : problem_.cut[k][item])
      if (step < cut.below * (1 - kRounding)) load = std::max(load, cut.load);
    return load;
  }

  /// The least that the items fill of the bins, by this measure.
  [[nodiscard]] double filled(const ShareFunction& function, double step, double bin) const {
    double sum = 0;
    for (const std::size_t i : order_) {
      if (problem_.load.front()[i] < kLeastShare * bin) break;
      sum += least(i, step, [&](double load) { return function(load / bin); });
    }
    return sum;
  }

  const ShareProblem& problem_;
  double known_;
  double speed_ = 0;
  double fastest_ = 0;
  std::vector<ShareFunction> functions_;
  std::vector<std::size_t> order_;  ///< items by falling load
  std::vector<std::size_t> heavy_;  ///< items that may have to be merged
  double light_ = 0;                ///< load of the others
};

}  // namespace

double share_bound(const ShareProblem& problem, double known) {
  SLIMPACK_CHECK(!problem.load.empty() && !problem.load.front().empty() &&
                 problem.step.size() == problem.load.size() && !problem.speed.empty());
  return Shares(problem, known).least_step();
}

}  // namespace slimpack
