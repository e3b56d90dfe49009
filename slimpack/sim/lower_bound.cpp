#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

Nanos sum(const std::vector<Nanos>& times) {
  Nanos total;
  for (const Nanos time : times) total += time;
  return total;
}

/// Adds the time on one stage and the transfer after it to every pack's way.
void extend(std::vector<Nanos>& way, const std::vector<Nanos>& stage,
            const std::vector<Nanos>& transfer) {
  for (std::size_t p = 0; p < way.size(); ++p) way[p] += stage[p] + transfer[p];
}

Nanos cheapest(const std::vector<Nanos>& way) {
  return *std::min_element(way.begin(), way.end());
}

using Table = std::vector<std::vector<Nanos>>;  // [stage][pack]

/// Backward times, whole or split, whichever is shorter.
class BackwardTimes {
 public:
  explicit BackwardTimes(const TaskTimes& times) : work_(&times.backward), sent_(&times.backward) {
    if (times.weight_gradient.empty()) return;
    split_work_ = split_sent_ = times.backward;
    for (std::size_t s = 0; s < split_work_.size(); ++s)
      for (std::size_t b = 0; b < split_work_[s].size(); ++b) {
        const Nanos first = times.input_gradient[s][b];
        split_work_[s][b] = std::min(split_work_[s][b], first + times.weight_gradient[s][b]);
        split_sent_[s][b] = std::min(split_sent_[s][b], first);
      }
    // The first stage sends nothing: the step waits for all of its work.
    split_sent_.front() = split_work_.front();
    work_ = &split_work_;
    sent_ = &split_sent_;
  }
  BackwardTimes(const BackwardTimes&) = delete;
  BackwardTimes& operator=(const BackwardTimes&) = delete;

  [[nodiscard]] const Table& work() const { return *work_; }  ///< of the whole backward
  [[nodiscard]] const Table& sent() const { return *sent_; }  ///< until the output can be sent

 private:
  const Table* work_;
  const Table* sent_;
  Table split_work_;
  Table split_sent_;
};

/// The longest chain over backward packs: the forwards that a pack needs on the first stage, the
/// way of the last of them through the other stages, and the way of the pack back to the first
/// stage. `forward_way` and `backward_way` lead from the first stage to the last. They include
/// transfers but not the last stage's own time.
Nanos longest_chain(const PackPlan& packs, const TaskTimes& times, const BackwardTimes& backward,
                    const std::vector<Nanos>& forward_way, const std::vector<Nanos>& backward_way) {
  std::vector<Nanos> before(packs.forward.size() + 1);
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    before[f + 1] = before[f] + times.forward.front()[f];
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  Nanos longest;
  for (std::size_t b = 0; b < needed.size(); ++b) {
    const auto last = static_cast<std::size_t>(needed[b]) - 1;
    const Nanos through = before[last] + forward_way[last] + times.forward.back()[last];
    longest = std::max(longest, through + backward.sent().back()[b] + backward_way[b]);
  }
  return longest;
}

struct Bounds {
  Nanos first_rank;              ///< end of the first rank's last action
  std::vector<Nanos> rank_ends;  ///< end of each rank's last action, by its own work alone
};

std::size_t rank_of(const StagePlacement& placement, std::size_t stage) {
  return static_cast<std::size_t>(placement.rank_of(StageId(stage)));
}

/// By rank of the pipeline: the sum over its stages' packs.
std::vector<Nanos> rank_sums(const Table& table, const StagePlacement& placement,
                             std::size_t ranks) {
  std::vector<Nanos> sums(ranks);
  for (std::size_t s = 0; s < table.size(); ++s) sums[rank_of(placement, s)] += sum(table[s]);
  return sums;
}

/// The time of the actions that all ranks run together. No rank runs anything else meanwhile.
Nanos joint_work(const TaskTimes& times) {
  Nanos sum_of_all;
  for (const std::vector<Nanos>& pass : times.joint) sum_of_all += sum(pass);
  return sum_of_all;
}

/// A rank begins with its first stage and ends with it: the rows that it has run forward on its
/// other stages go back through the first one.
Bounds bounds_of(const PackPlan& packs, const TaskTimes& times, const StagePlacement& placement) {
  Bounds bounds;
  if (packs.forward.empty()) return bounds;
  const BackwardTimes backward(times);
  const std::size_t ranks = times.ranks();
  const std::vector<Nanos> forward_work = rank_sums(times.forward, placement, ranks);
  const std::vector<Nanos> backward_work = rank_sums(backward.work(), placement, ranks);
  const std::vector<Nanos> backward_sent = rank_sums(backward.sent(), placement, ranks);
  bounds.rank_ends.resize(ranks);
  const Nanos joint = joint_work(times);
  std::vector<Nanos> forward_way(packs.forward.size());
  std::vector<Nanos> backward_way(packs.backward.size());
  for (std::size_t s = 0; s < times.forward.size(); ++s) {
    if (placement.local_stage(StageId(s)) == 0) {
      const std::size_t r = rank_of(placement, s);
      const Nanos forwards_done = cheapest(forward_way) + forward_work[r];
      // A message may travel meanwhile, so the way is left out.
      const Nanos work = forward_work[r] + backward_work[r] + joint;
      bounds.rank_ends[r] = std::max(forwards_done + backward_work[r], work);
      bounds.first_rank =
          std::max(bounds.first_rank, forwards_done + backward_sent[r] + cheapest(backward_way));
    }
    if (s + 1 == times.forward.size()) break;
    extend(forward_way, times.forward[s], times.forward_transfer);
    extend(backward_way, backward.sent()[s], times.backward_transfer);
  }
  bounds.first_rank =
      std::max(bounds.first_rank, longest_chain(packs, times, backward, forward_way, backward_way));
  return bounds;
}

}  // namespace

Nanos makespan_lower_bound(const PackPlan& packs, const TaskTimes& times,
                           const StagePlacement& placement) {
  const Nanos step_end = *std::max_element(times.step_end.begin(), times.step_end.end());
  const Bounds bounds = bounds_of(packs, times, placement);
  Nanos reduced = bounds.first_rank + times.least_reduce(rank_of(placement, 0));
  for (std::size_t r = 0; r < bounds.rank_ends.size(); ++r)
    reduced = std::max(reduced, bounds.rank_ends[r] + times.least_reduce(r));
  return reduced + step_end;
}

Nanos actions_lower_bound(const PackPlan& packs, const TaskTimes& times,
                          const StagePlacement& placement) {
  const Bounds bounds = bounds_of(packs, times, placement);
  Nanos last = bounds.first_rank;
  for (const Nanos end : bounds.rank_ends) last = std::max(last, end);
  return last;
}

}  // namespace slimpack
