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
#include <iterator>
#include <optional>
#include <utility>

#include "slimpack/baselines/sharing_rounds.h"

namespace slimpack {
namespace {

class DynamicRound {
 public:
  DynamicRound(const SequenceLengths& lengths, const ContextSharing& sharing, std::int32_t replicas)
      : lengths_(lengths), sharing_(sharing), free_(replicas) {}

  /// Moves the sequences of one round out of `left`, which is sorted and stays sorted.
  SharingRound take(std::vector<SequenceId>& left) {
    shortest_ = lengths_[left.back().index()].count();
    add(left.front(), {.count = sharing_.replicas_for(lengths_[left.front().index()])});
    std::vector<SequenceId> waiting;
    for (std::size_t i = 1; i < left.size(); ++i) {
      if (free_ == 0 && open_.empty()) {
        waiting.insert(waiting.end(), left.begin() + static_cast<std::ptrdiff_t>(i), left.end());
        break;
      }
      if (const std::optional<Place> place = best_place(left[i]))
        add(left[i], *place);
      else
        waiting.push_back(left[i]);
    }
    left = std::move(waiting);
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

  [[nodiscard]] std::optional<Place> best_place(SequenceId id) const {
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
    return best;
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
  std::vector<SequenceId> left = all_sequences(lengths);
  sort_longest_first(lengths, left);
  std::vector<SharingRound> rounds;
  while (!left.empty()) rounds.push_back(DynamicRound(lengths, sharing, replicas).take(left));
  return rounds;
}

}  // namespace slimpack
