// Steps: 1. Cost every pair of cells that a slice may begin and end in. 2. For a limit on the
// longest slice, find the least sum of all slices by dynamic programming. 3. Narrow the limit down.
#include "slimpack/solver/chain_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::int64_t kCells = 128;
constexpr double kNoSum = std::numeric_limits<double>::infinity();
/// Limits that differ by less than this share of the bound are not told apart.
constexpr double kLimitPrecision = 0.005;

double pairs_of(const PackCost& cost, const Slice& slice) {
  return cost.windowed() ? slice.window_pairs(cost.window) : slice.causal_pairs();
}

bool hides_too_much(const PackCost& cost) {
  return cost.travel.hidden_per_pair > (cost.windowed() ? cost.per_window_pair : cost.per_pair);
}

/// The terms that add up, of pairs only as far as messages do not hide behind them.
PackCost adding_up_beside_messages(const PackCost& cost) {
  PackCost out = adding_up(cost);
  (cost.windowed() ? out.per_window_pair : out.per_pair) -= cost.travel.hidden_per_pair;
  return out;
}

/// The rest: overheads, the prefix, and the longer of messages and what they hide behind. Slices
/// hold `inner` at least, begin at `begin` or later and end at `end` or later.
double apart(const PackCost& cost, const Slice& inner, Tokens begin, Tokens end) {
  const Travel& travel = cost.travel;
  return cost.per_pack + cost.per_slice + cost.prefix({inner.sequence, begin, begin}) +
         std::max(
             travel.hidden_per_pair * pairs_of(cost, inner),
             std::min(travel.per_query * std::max(1.0, static_cast<double>(inner.length().count())),
                      travel.per_key * static_cast<double>(end.count())));
}

/// Stages of one cost.
struct LikeStages {
  explicit LikeStages(const PackCost& of) : cost(of), adding_up(adding_up_beside_messages(of)) {}

  PackCost cost;
  PackCost adding_up;
  double count = 1;
};

class Chain {
 public:
  Chain(const std::vector<PackCost>& stages, Tokens length)
      : first_(stages.front()), last_(stages.back()) {
    for (std::size_t s = 1; s + 1 < stages.size(); ++s) {
      const auto like = std::ranges::find(between_, stages[s], &LikeStages::cost);
      if (like == between_.end())
        between_.emplace_back(stages[s]);
      else
        ++like->count;
    }
    const std::int64_t cells = std::min(kCells, length.count());
    for (std::int64_t c = 0; c <= cells; ++c) edges_.emplace_back(length.count() * c / cells);
    sum_.assign(places() * places(), kNoSum);
    longest_ = sum_;
    for (std::size_t from = 0; from + 1 < places(); ++from)
      for (std::size_t to = from + 1; to < places(); ++to) cost_slice(from, to);
    // Some slices may run on the first stage, the others on the last.
    whole_ = smaller_terms(first_.adding_up, last_.adding_up)({SequenceId(), Tokens(0), length});
  }

  /// Cuts whose longest slice is between two limits have no smaller sum than the higher one allows.
  [[nodiscard]] double least() const {
    struct Range {
      double low, high;  ///< limits
      double bound;
    };
    const auto range = [&](double low, double high) {
      return Range{low, high, whole_ + least_sum(high) + low};
    };
    std::vector<Range> ranges{
        range(*std::ranges::min_element(longest_), longest_[at(0, places() - 1)])};
    for (;;) {
      const auto least = std::ranges::min_element(ranges, {}, &Range::bound);
      const auto [low, high, bound] = *least;
      const double middle = low + (high - low) / 2;
      if (high - low <= kLimitPrecision * bound || middle <= low) return bound;
      *least = range(low, middle);
      ranges.push_back(range(middle, high));
    }
  }

 private:
  /// The places of a cut are the begin, the cells and the end.
  [[nodiscard]] std::size_t places() const { return edges_.size() + 1; }
  [[nodiscard]] std::size_t at(std::size_t from, std::size_t to) const {
    return from * places() + to;
  }

  void cost_slice(std::size_t from, std::size_t to) {
    const Tokens begin = edges_[from == 0 ? 0 : from - 1], end = edges_[to - 1];
    const Slice inner{SequenceId(), edges_[from], std::max(edges_[from], end)};
    const auto apart_on = [&](const LikeStages& like) {
      return apart(like.cost, inner, begin, end);
    };
    const double on_first = apart_on(first_), on_last = apart_on(last_);
    sum_[at(from, to)] = std::min(on_first, on_last);
    // The slice counts once on the end where it takes less; on all other stages it comes on top.
    double longest = std::max(on_first + first_.adding_up(inner), on_last + last_.adding_up(inner));
    for (const LikeStages& like : between_)
      longest += like.count * (apart_on(like) + like.adding_up(inner));
    longest_[at(from, to)] = longest;
  }

  /// Infinity if a slice has to be longer.
  [[nodiscard]] double least_sum(double limit) const {
    std::vector<double> least(places(), kNoSum);
    least.front() = 0;
    for (std::size_t from = 0; from + 1 < places(); ++from)
      for (std::size_t to = from + 1; to < places(); ++to)
        if (longest_[at(from, to)] <= limit)
          least[to] = std::min(least[to], least[from] + sum_[at(from, to)]);
    return least.back();
  }

  LikeStages first_;
  LikeStages last_;
  std::vector<LikeStages> between_;
  std::vector<Tokens> edges_;    ///< of the cells
  double whole_ = 0;             ///< what adds up
  std::vector<double> sum_;      ///< of slices by places, what they add beside that
  std::vector<double> longest_;  ///< of slices by places, the way through all other stages
};

}  // namespace

double chain_bound(const std::vector<PackCost>& stages, Tokens length) {
  SLIMPACK_CHECK(stages.size() > 1 && length > Tokens(0));
  if (std::ranges::any_of(stages, hides_too_much)) return 0;
  return Chain(stages, length).least();
}

}  // namespace slimpack
