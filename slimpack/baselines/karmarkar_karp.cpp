#include "slimpack/baselines/karmarkar_karp.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// One part: its values are a chain through `next`, so that two parts join in O(1).
struct Part {
  std::int64_t sum = 0;
  std::size_t first = kNone;  ///< least index, the chain's head
  std::size_t last = kNone;
};

struct Heavier {
  bool operator()(const Part& a, const Part& b) const {
    return std::tuple(-a.sum, a.first) < std::tuple(-b.sum, b.first);
  }
};

/// A partition of some of the values. Parts that it does not list are empty.
struct Partition {
  std::set<Part, Heavier> parts;
  std::int64_t spread = 0;
};

/// The partition of the lowest rank is joined next: it has the widest spread and, of equals,
/// the heaviest part.
auto join_rank(const Partition& partition) {
  const Part& heaviest = *partition.parts.begin();
  return std::tuple(-partition.spread, -heaviest.sum, heaviest.first);
}

struct JoinsLater {
  bool operator()(const Partition& a, const Partition& b) const {
    return join_rank(a) > join_rank(b);
  }
};

/// Joins partitions until one is left. Nearly all joins are of a partition with a single value, so
/// values are sorted once and wait outside the heap, and a join takes time for the parts of the
/// smaller partition alone.
class Differencing {
 public:
  Differencing(std::span<const std::int64_t> values, std::size_t parts)
      : values_(values), count_(parts), next_(values.size(), kNone), waiting_(values.size()) {
    for (const std::int64_t value : values) SLIMPACK_CHECK(value >= 0);
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
    std::ranges::stable_sort(waiting_, std::greater(), [&](std::size_t i) { return values[i]; });
  }

  std::vector<std::vector<std::size_t>> run() {
    while (joined_.size() + waiting_.size() - begun_ > 1) {
      Partition a = take();
      Partition b = take();
      if (a.parts.size() < b.parts.size()) std::swap(a, b);
      join(a, b);
      joined_.push_back(std::move(a));
      std::push_heap(joined_.begin(), joined_.end(), JoinsLater());
    }
    std::vector<std::vector<std::size_t>> out(count_);
    if (values_.empty()) return out;
    const Partition all = take();
    std::size_t p = 0;
    for (const Part& part : all.parts) {
      for (std::size_t i = part.first; i != kNone; i = next_[i]) out[p].push_back(i);
      std::sort(out[p].begin(), out[p].end());
      ++p;
    }
    return out;
  }

 private:
  [[nodiscard]] std::int64_t spread(const Partition& partition) const {
    const auto& parts = partition.parts;
    return parts.begin()->sum - (parts.size() < count_ ? 0 : parts.rbegin()->sum);
  }

  /// Whether the next of the waiting values is taken before all joined partitions.
  [[nodiscard]] bool value_is_next() const {
    if (begun_ == waiting_.size()) return false;
    if (joined_.empty()) return true;
    const std::size_t i = waiting_[begun_];
    const std::int64_t alone = count_ == 1 ? 0 : values_[i];
    return std::tuple(-alone, -values_[i], i) < join_rank(joined_.front());
  }

  Partition take() {
    if (value_is_next()) {
      const std::size_t i = waiting_[begun_++];
      Partition alone{{{values_[i], i, i}}, 0};
      alone.spread = spread(alone);
      return alone;
    }
    std::pop_heap(joined_.begin(), joined_.end(), JoinsLater());
    Partition top = std::move(joined_.back());
    joined_.pop_back();
    return top;
  }

  /// Joins b into a, which has as many parts or more. The heaviest part of b joins the lightest of
  /// a, and so on. As long as both together have at most `count` parts, each joins an empty one.
  void join(Partition& a, const Partition& b) {
    std::size_t empty = std::min(count_ - a.parts.size(), b.parts.size());
    std::vector<Part> changed;
    changed.reserve(b.parts.size());
    for (const Part& part : b.parts) {
      changed.push_back(part);
      if (empty > 0) {
        --empty;
        continue;
      }
      const auto lightest = std::prev(a.parts.end());
      add(changed.back(), *lightest);
      a.parts.erase(lightest);
    }
    // Where parts are new, they are the lightest.
    for (const Part& part : changed) a.parts.insert(a.parts.end(), part);
    a.spread = spread(a);
  }

  /// Adds the values of `other` to `part`. The chain with the least index comes first.
  void add(Part& part, const Part& other) {
    Part front = part;
    Part back = other;
    if (back.first < front.first) std::swap(front, back);
    next_[front.last] = back.first;
    part = {front.sum + back.sum, front.first, back.last};
  }

  std::span<const std::int64_t> values_;
  std::size_t count_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> waiting_;  ///< heaviest first: values that make a partition each
  std::size_t begun_ = 0;             ///< so many of them have been taken
  std::vector<Partition> joined_;     ///< a heap
};

}  // namespace

std::vector<std::vector<std::size_t>> karmarkar_karp(std::span<const std::int64_t> values,
                                                     std::size_t parts) {
  SLIMPACK_CHECK(parts >= 1);
  return Differencing(values, parts).run();
}

}  // namespace slimpack
