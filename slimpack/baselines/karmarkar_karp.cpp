#include "slimpack/baselines/karmarkar_karp.h"

#include <algorithm>
#include <cstddef>
#include <limits>
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

bool heavier(const Part& a, const Part& b) {
  return std::tuple(-a.sum, a.first) < std::tuple(-b.sum, b.first);
}

/// A partition of some of the values. Parts that it does not list are empty.
struct Partition {
  std::vector<Part> parts;  ///< heaviest first
  std::int64_t spread = 0;
};

/// The partition with the widest spread is joined next; of equals, the one with the heaviest part.
struct JoinsLater {
  bool operator()(const Partition& a, const Partition& b) const {
    return std::tuple(a.spread, a.parts.front().sum, b.parts.front().first) <
           std::tuple(b.spread, b.parts.front().sum, a.parts.front().first);
  }
};

class Differencing {
 public:
  Differencing(std::span<const std::int64_t> values, std::size_t parts)
      : count_(parts), next_(values.size(), kNone) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      SLIMPACK_CHECK(values[i] >= 0);
      put(with_spread({{{values[i], i, i}}, 0}));
    }
  }

  std::vector<std::vector<std::size_t>> run() {
    while (queue_.size() > 1) {
      Partition a = take();
      Partition b = take();
      if (a.parts.size() < b.parts.size()) std::swap(a, b);
      put(join(std::move(a), b));
    }
    std::vector<std::vector<std::size_t>> out(count_);
    if (queue_.empty()) return out;
    const Partition all = take();
    for (std::size_t p = 0; p < all.parts.size(); ++p) {
      for (std::size_t i = all.parts[p].first; i != kNone; i = next_[i]) out[p].push_back(i);
      std::sort(out[p].begin(), out[p].end());
    }
    return out;
  }

 private:
  Partition with_spread(Partition partition) const {
    const auto& parts = partition.parts;
    partition.spread = parts.front().sum - (parts.size() < count_ ? 0 : parts.back().sum);
    return partition;
  }

  Partition take() {
    std::pop_heap(queue_.begin(), queue_.end(), JoinsLater());
    Partition top = std::move(queue_.back());
    queue_.pop_back();
    return top;
  }

  void put(Partition partition) {
    queue_.push_back(std::move(partition));
    std::push_heap(queue_.begin(), queue_.end(), JoinsLater());
  }

  Partition join(Partition a, const Partition& b) {
    a.parts.resize(std::min(count_, a.parts.size() + b.parts.size()));
    // Part i of a joins part count − 1 − i of b. As long as both together have at most `count`
    // parts, each joins an empty one.
    for (std::size_t j = 0; j < b.parts.size(); ++j)
      add(a.parts[a.parts.size() - 1 - j], b.parts[j]);
    const auto changed = a.parts.end() - static_cast<std::ptrdiff_t>(b.parts.size());
    std::sort(changed, a.parts.end(), heavier);
    std::inplace_merge(a.parts.begin(), changed, a.parts.end(), heavier);
    return with_spread(std::move(a));
  }

  /// Adds the values of `other` to `part`. The chain with the least index comes first.
  void add(Part& part, const Part& other) {
    if (part.first == kNone) {
      part = other;
      return;
    }
    Part front = part;
    Part back = other;
    if (back.first < front.first) std::swap(front, back);
    next_[front.last] = back.first;
    part = {front.sum + back.sum, front.first, back.last};
  }

  std::size_t count_;
  std::vector<std::size_t> next_;
  std::vector<Partition> queue_;  ///< a heap
};

}  // namespace

std::vector<std::vector<std::size_t>> karmarkar_karp(std::span<const std::int64_t> values,
                                                     std::size_t parts) {
  SLIMPACK_CHECK(parts >= 1);
  return Differencing(values, parts).run();
}

}  // namespace slimpack
