#include "slimpack/solver/paired_cut.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr double kBudgetStep = 1e-3;

/// MicroPacks that share a cut sequence lie in one group.
struct Group {
  std::size_t begin = 0, end = 0;
};

/// Fills MicroPacks up to a budget.
class Filling {
 public:
  Filling(const SequenceLengths& lengths, const PackCost& both, Tokens granularity, double budget)
      : lengths_(lengths), both_(both), granularity_(granularity), budget_(budget) {}

  void add(SequenceId sequence) {
    const Slice whole{sequence, Tokens(0), lengths_[sequence.index()]};
    const double time = both_(whole);
    if (time > budget_ && whole.end > granularity_) {
      cut(whole);
      return;
    }
    const auto found = rooms_.lower_bound({time, 0});
    if (found == rooms_.end()) {
      groups_.push_back({packs_.size(), packs_.size() + 1});
      open(whole);
      return;
    }
    const auto [room, pack] = *found;
    rooms_.erase(found);
    packs_[pack].slices.push_back(whole);
    rooms_.insert({room - time, pack});
  }

  [[nodiscard]] std::size_t size() const { return packs_.size(); }

  [[nodiscard]] PackPlan plan() && {
    PackPlan plan;
    for (const auto& [begin, end] : groups_)
      for (std::size_t p = end; p-- > begin;) plan.backward.push_back(packs_[p]);
    plan.forward = std::move(packs_);
    return plan;
  }

 private:
  void cut(const Slice& whole) {
    Group& group = groups_.emplace_back(Group{packs_.size(), 0});
    for (Slice rest = whole; rest.begin < rest.end;) {
      const Slice slice{rest.sequence, rest.begin, end_of(rest)};
      open(slice);
      rest.begin = slice.end;
    }
    group.end = packs_.size();
  }

  void open(const Slice& slice) {
    rooms_.insert({budget_ - both_(slice), packs_.size()});
    packs_.push_back({{slice}});
  }

  /// The last cut before the budget is exceeded, or the first one.
  [[nodiscard]] Tokens end_of(const Slice& rest) const {
    if (both_(rest) <= budget_) return rest.end;
    std::int64_t fits = 1;
    std::int64_t too_many = (rest.length().count() - 1) / granularity_.count() + 1;
    while (too_many - fits > 1) {
      const std::int64_t middle = fits + (too_many - fits) / 2;
      const Slice slice{rest.sequence, rest.begin, rest.begin + granularity_ * middle};
      (both_(slice) <= budget_ ? fits : too_many) = middle;
    }
    return std::min(rest.end, rest.begin + granularity_ * fits);
  }

  const SequenceLengths& lengths_;
  const PackCost& both_;
  Tokens granularity_;
  double budget_;
  std::vector<MicroPack> packs_;
  std::vector<Group> groups_;
  std::set<std::pair<double, std::size_t>> rooms_;  ///< what is left of the budget, and the pack
};

}  // namespace

PackPlan paired_cut(const SequenceLengths& lengths, const std::vector<SequenceId>& order,
                    const PackCost& both, int packs, Tokens granularity) {
  SLIMPACK_CHECK(packs >= 1 && granularity >= Tokens(1));
  const auto filled = [&](double budget) {
    Filling filling(lengths, both, granularity, budget);
    for (const SequenceId sequence : order) filling.add(sequence);
    return filling;
  };
  double all = 0;
  for (const SequenceId q : order) all += both(Slice{q, Tokens(0), lengths[q.index()]});
  constexpr double kRounding = 1 + 1e-9;  // of sums in another order
  double enough = all * kRounding, too_little = all / packs * (1 - kBudgetStep);
  while (enough - too_little > kBudgetStep * too_little) {
    const double middle = too_little + (enough - too_little) / 2;
    (filled(middle).size() <= static_cast<std::size_t>(packs) ? enough : too_little) = middle;
  }
  return filled(enough).plan();
}

}  // namespace slimpack
