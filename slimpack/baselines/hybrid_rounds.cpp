// Megatron's hybrid context parallelism. Steps, for each round until no sequence is left:
//  1. Divide the sequences, longest first, into as many buckets of about equal work as there are
//     widths (replicas per sequence) among them.
//  2. Take the first sequence of the first bucket for which a group of its width exists or enough
//     replicas are free. Give it to the group with the least work, or open a new one. Stop when no
//     bucket has such a sequence, or, once the width has fallen, when the groups are balanced.
//  3. While the heaviest group's last sequence makes the balance worse, put it off.
//  4. While at least as many replicas are free as the narrowest group has, double the first group
//     of that width.
#include "slimpack/baselines/sharing_rounds.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace slimpack {
namespace {

constexpr double kSlack = 0.05;
constexpr double kBucketSlack = 1.1;

using Ids = std::deque<SequenceId>;

class Round {
 public:
  Round(const SequenceLengths& lengths, const ContextSharing& sharing, std::int32_t replicas)
      : lengths_(lengths), sharing_(sharing), replicas_(replicas) {}

  /// Moves the sequences of one round out of `left`, which is sorted and stays sorted.
  SharingRound take(std::vector<SequenceId>& left) {
    std::vector<Ids> buckets = make_buckets(left);
    fill(buckets);
    left.clear();
    for (const Ids& bucket : buckets) left.insert(left.end(), bucket.begin(), bucket.end());
    const std::size_t put_off = trim(left);
    if (put_off > 0) sort_longest_first(lengths_, left);
    const std::int32_t free = free_replicas();
    SharingRound round(std::move_iterator(groups_.begin()), std::move_iterator(groups_.end()));
    widen_narrowest(round, free, sharing_.largest);
    return side_by_side(std::move(round));
  }

 private:
  struct Group : SharingGroup {
    double work = 0;
  };

  [[nodiscard]] std::int32_t width(SequenceId id) const {
    return sharing_.replicas_for(lengths_[id.index()]);
  }
  [[nodiscard]] double work(SequenceId id) const {
    const auto length = static_cast<double>(lengths_[id.index()].count());
    return length * length / width(id);
  }

  [[nodiscard]] std::vector<Ids> make_buckets(const std::vector<SequenceId>& left) const {
    std::set<std::int32_t> widths;
    double total = 0;
    for (const SequenceId id : left) {
      widths.insert(width(id));
      total += work(id);
    }
    const double target = total / static_cast<double>(widths.size());
    std::vector<Ids> buckets(1);
    double bucket_work = 0;
    auto buckets_to_come = static_cast<std::int64_t>(widths.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto behind = static_cast<std::int64_t>(left.size() - i);
      const auto closed = static_cast<std::int64_t>(buckets.size()) - 1;
      if (!buckets.back().empty() && (bucket_work + work(left[i]) > target * kBucketSlack ||
                                      behind <= buckets_to_come - closed)) {
        buckets.emplace_back();
        bucket_work = 0;
        --buckets_to_come;
      }
      buckets.back().push_back(left[i]);
      bucket_work += work(left[i]);
    }
    return buckets;
  }

  /// The group of this width with the least work; null if there is none.
  Group* lightest(std::int32_t count) {
    Group* best = nullptr;
    for (Group& group : groups_)
      if (group.count == count && (best == nullptr || group.work < best->work)) best = &group;
    return best;
  }

  [[nodiscard]] std::int32_t free_replicas() const {
    std::int32_t used = 0;
    for (const Group& group : groups_) used += group.count;
    return replicas_ - used;
  }

  void fill(std::vector<Ids>& buckets) {
    std::optional<std::int32_t> first_width;
    bool check_balance = false;
    for (;;) {
      const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const Ids& ids) {
        return !ids.empty() &&
               (lightest(width(ids.front())) != nullptr || free_replicas() >= width(ids.front()));
      });
      if (bucket == buckets.end()) return;
      const SequenceId id = bucket->front();
      bucket->pop_front();
      const std::int32_t count = width(id);
      Group* group = lightest(count);
      // A group with work is never lighter than a group without.
      if (group == nullptr || free_replicas() >= count)
        group = &groups_.emplace_back(Group{{.count = count}});
      group->sequences.push_back(id);
      group->work += work(id);
      const std::int32_t first = first_width.value_or(count);
      first_width = first;
      check_balance |= count < first;
      if (check_balance && slack() <= kSlack * most_work()) return;
    }
  }

  [[nodiscard]] double most_work() const {
    double most = 0;
    for (const Group& group : groups_) most = std::max(most, group.work);
    return most;
  }
  [[nodiscard]] double slack() const {
    double least = free_replicas() > 0 ? 0 : groups_.front().work;
    for (const Group& group : groups_) least = std::min(least, group.work);
    return most_work() - least;
  }

  /// Moves sequences back to the end of `left`; returns their number.
  std::size_t trim(std::vector<SequenceId>& left) {
    for (std::size_t count = 0;; ++count) {
      const double before = slack();
      if (before <= kSlack * most_work() || free_replicas() > 0) return count;
      Group& heaviest =
          *std::max_element(groups_.begin(), groups_.end(),
                            [](const Group& a, const Group& b) { return a.work < b.work; });
      if (heaviest.sequences.size() <= 1) return count;
      const SequenceId last = heaviest.sequences.back();
      heaviest.work -= work(last);
      if (slack() >= before) {
        heaviest.work += work(last);
        return count;
      }
      heaviest.sequences.pop_back();
      left.push_back(last);
    }
  }

  const SequenceLengths& lengths_;
  const ContextSharing& sharing_;
  std::int32_t replicas_;
  std::vector<Group> groups_;  ///< widest first
};

}  // namespace

std::vector<SharingRound> hybrid_rounds(const SequenceLengths& lengths,
                                        const ContextSharing& sharing, std::int32_t replicas) {
  std::vector<SequenceId> left = all_sequences(lengths);
  sort_longest_first(lengths, left);
  std::vector<SharingRound> rounds;
  while (!left.empty()) rounds.push_back(Round(lengths, sharing, replicas).take(left));
  return rounds;
}

}  // namespace slimpack
