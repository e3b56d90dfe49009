// Megatron's dynamic context parallelism (next_hdp_group_packing_aware in
// megatron/core/datasets/data_schedule_utils.py). Steps, for each round until no sequence is left:
//  1. Give the longest sequence a group of its width, the replicas that it needs.
//  2. For every further sequence, longest first, take the width from its own on, and the group of
//     that width or the free replicas, with which the round's most work on a replica is least; of
//     equals the first. A group has room for its width · per_replica tokens. A sequence that fits
//     nowhere waits for the next round.
//  3. While replicas are free, double the first of the narrowest groups.
// The original bounds the work of a replica, too: by 1.05 · the longest sequence · per_replica. The
// room says that already, for no sequence of the round has more work per token than the longest.
#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/sharing_rounds.h"

namespace slimpack {
namespace {

/// The sequences that no round has yet, longest first.
class Left {
 public:
  explicit Left(const SequenceLengths& lengths)
      : lengths_(lengths), order_(all_sequences(lengths)), next_(order_.size() + 1) {
    sort_longest_first(lengths, order_);
    std::iota(next_.begin(), next_.end(), std::size_t{0});
  }

  [[nodiscard]] SequenceId at(std::size_t place) const { return order_[place]; }
  [[nodiscard]] std::int64_t length(std::size_t place) const {
    return lengths_[order_[place].index()].count();
  }
  /// The first place from `place` on whose sequence is left; end() if there is none.
  [[nodiscard]] std::size_t from(std::size_t place) {
    while (next_[place] != place) place = next_[place] = next_[next_[place]];
    return place;
  }
  /// The first such place whose sequence has at most so many tokens.
  [[nodiscard]] std::size_t from(std::size_t place, std::int64_t tokens) {
    const auto rest = std::span(order_).subspan(place);
    const auto first = std::ranges::partition_point(
        rest, [&](SequenceId id) { return lengths_[id.index()].count() > tokens; });
    return from(place + static_cast<std::size_t>(first - rest.begin()));
  }
  void take(std::size_t place) {
    next_[place] = place + 1;
    while (shortest_ > 0 && next_[shortest_ - 1] != shortest_ - 1) --shortest_;
  }
  [[nodiscard]] bool empty() const { return shortest_ == 0; }
  [[nodiscard]] std::size_t end() const { return order_.size(); }
  /// REQUIRES: not empty.
  [[nodiscard]] std::int64_t shortest() const { return length(shortest_ - 1); }

 private:
  const SequenceLengths& lengths_;
  std::vector<SequenceId> order_;
  std::vector<std::size_t> next_;  ///< by place: itself, or a place no further than the next left
  std::size_t shortest_ = order_.size();  ///< behind the last place that is left
};

class DynamicRound {
 public:
  DynamicRound(const SequenceLengths& lengths, const ContextSharing& sharing, std::int32_t replicas)
      : lengths_(lengths), sharing_(sharing), free_(replicas) {}

  /// Takes the sequences of one round. REQUIRES: one is left.
  SharingRound take(Left& left) {
    shortest_ = left.shortest();
    std::size_t place = left.from(0);
    add(left.at(place), {.count = sharing_.replicas_for(Tokens(left.length(place)))});
    left.take(place);
    while ((place = left.from(place, most_tokens())) != left.end()) {
      add(left.at(place), best_place(left.at(place)));
      left.take(place);
    }
    SharingRound round(std::move_iterator(groups_.begin()), std::move_iterator(groups_.end()));
    // The original makes one group of all replicas where that leaves some without work.
    widen_narrowest(round, free_, sharing_.largest);
    return side_by_side(std::move(round));
  }

 private:
  struct Group : SharingGroup {
    double work = 0;  ///< of each replica
    std::int64_t room = 0;
  };
  /// A group, or `count` free replicas.
  struct Place {
    std::int32_t count = 1;
    std::optional<std::size_t> group = std::nullopt;
  };

  [[nodiscard]] double tokens(SequenceId id) const {
    return static_cast<double>(lengths_[id.index()].count());
  }
  [[nodiscard]] double work(SequenceId id, std::int32_t count) const {
    return tokens(id) * tokens(id) / count;
  }

  /// A sequence of so many tokens fits somewhere, none that is longer does: a group is never
  /// narrower than its sequences need.
  [[nodiscard]] std::int64_t most_tokens() const {
    if (free_ < sharing_.least) return most_room_;
    const auto widest =
        std::min<std::int64_t>(std::bit_floor(static_cast<std::uint32_t>(free_)), sharing_.largest);
    return std::max(most_room_, widest * sharing_.per_replica.count());
  }

  /// REQUIRES: no more than most_tokens().
  [[nodiscard]] Place best_place(SequenceId id) const {
    const std::int64_t length = lengths_[id.index()].count();
    std::optional<Place> best;
    double best_work = 0;
    const auto consider = [&](const Place& place, double work) {
      const double most = std::max(most_work_, work);
      if (best && most >= best_work) return;
      best = place;
      best_work = most;
    };
    const auto is_least = [&] { return best && best_work == most_work_; };
    const std::int32_t least = sharing_.replicas_for(lengths_[id.index()]);
    for (std::int32_t count = least; count <= sharing_.largest && !is_least(); count *= 2) {
      const double more = work(id, count);
      for (std::size_t i = 0; i < open_.size() && length <= most_room_ && !is_least(); ++i)
        if (const Group& group = groups_[open_[i]]; group.count == count && length <= group.room)
          consider({count, open_[i]}, group.work + more);
      if (free_ >= count) consider({count}, more);
    }
    SLIMPACK_CHECK(best);
    return *best;
  }

  void add(SequenceId id, const Place& place) {
    const std::size_t g = place.group.value_or(groups_.size());
    if (!place.group) {
      groups_.push_back({{.count = place.count}, 0, sharing_.per_replica.count() * place.count});
      open_.push_back(g);
      free_ -= place.count;
    }
    Group& group = groups_[g];
    group.sequences.push_back(id);
    group.work += work(id, group.count);
    group.room -= lengths_[id.index()].count();
    most_work_ = std::max(most_work_, group.work);
    if (group.room < shortest_) std::erase(open_, g);
    most_room_ = 0;
    for (const std::size_t other : open_) most_room_ = std::max(most_room_, groups_[other].room);
  }

  const SequenceLengths& lengths_;
  const ContextSharing& sharing_;
  std::int32_t free_;
  double most_work_ = 0;  ///< of a replica
  std::int64_t most_room_ = 0;
  std::int64_t shortest_ = 0;      ///< of all sequences that are left
  std::vector<Group> groups_;      ///< widest first
  std::vector<std::size_t> open_;  ///< groups with room for the shortest sequence
};

}  // namespace

std::vector<SharingRound> dynamic_rounds(const SequenceLengths& lengths,
                                         const ContextSharing& sharing, std::int32_t replicas) {
  Left left(lengths);
  std::vector<SharingRound> rounds;
  while (!left.empty()) rounds.push_back(DynamicRound(lengths, sharing, replicas).take(left));
  return rounds;
}

}  // namespace slimpack
