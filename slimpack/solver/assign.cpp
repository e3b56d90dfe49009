#include "slimpack/solver/assign.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/solver/balance.h"
#include "slimpack/solver/share_fit.h"

namespace slimpack {
namespace {

/// Sequences below this share of the least load are balanced around the others.
constexpr double kShortSequence = 1.0 / 8;

Slice whole(const SequenceLengths& lengths, SequenceId q) {
  return {q, Tokens(0), lengths[q.index()]};
}

/// k of the group that the sequence loads least; ties go to the smallest.
std::size_t lightest_group(const Slice& sequence, std::span<const PackCost> groups) {
  const auto load = [&](const PackCost& group) { return group(sequence); };
  return static_cast<std::size_t>(std::ranges::min_element(groups, {}, load) - groups.begin());
}

/// The group of a sequence for which no group is large enough.
enum class Otherwise : std::uint8_t {
  kLightest,  ///< it takes the group that it loads least
  kLargest,   ///< it takes the largest group, on which it needs least memory
};

/// k of the smallest group that the sequence does not load too much.
std::size_t group_for(const Slice& sequence, std::span<const PackCost> groups, double most,
                      Otherwise otherwise) {
  const auto fits = [&](const PackCost& group) { return group(sequence) <= most; };
  const auto found = std::ranges::find_if(groups, fits);
  if (found != groups.end()) return static_cast<std::size_t>(found - groups.begin());
  return otherwise == Otherwise::kLargest ? groups.size() - 1 : lightest_group(sequence, groups);
}

/// The groups of one size, the least loaded first. A group is as loaded as its most loaded replica;
/// ties go to the first.
class GroupQueue {
 public:
  GroupQueue(const std::vector<double>& load, std::size_t count) : load_(load), count_(count) {
    for (std::size_t first = 0; first + count <= load.size(); first += count) push(first);
  }

  /// Takes the least loaded group: its first replica.
  std::size_t pop() {
    const std::size_t first = queue_.top().second;
    queue_.pop();
    return first;
  }
  /// Gives it back with its new load.
  void push(std::size_t first) {
    const auto begin = load_.begin() + static_cast<std::ptrdiff_t>(first);
    queue_.emplace(*std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count_)), first);
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  using Loaded = std::pair<double, std::size_t>;

  const std::vector<double>& load_;
  std::size_t count_;
  std::priority_queue<Loaded, std::vector<Loaded>, std::greater<>> queue_;
};

/// Largest groups first, then longest sequences.
void sort_merged(const SequenceLengths& lengths, std::vector<MergedSequence>& merged) {
  std::ranges::sort(merged, {}, [&](const MergedSequence& m) {
    return std::tuple(-m.replicas, -lengths[m.sequence.index()].count(), m.sequence);
  });
}

/// Merges a sequence of the heaviest of the 2^k replicas from `first` on. False: none is worth it.
bool level_group(const AssignProblem& problem, std::size_t first, std::size_t k, double least,
                 Assignment& assignment) {
  const auto load_on = [&](std::size_t size, SequenceId q) {
    return problem.groups[size](whole(problem.lengths, q));
  };
  std::vector<double>& load = assignment.load;
  const auto group = load.begin() + static_cast<std::ptrdiff_t>(first);
  const auto count = std::ptrdiff_t{1} << k;
  const auto heavy =
      static_cast<std::size_t>(std::max_element(group, group + count) - load.begin());
  const std::size_t end = first + static_cast<std::size_t>(count);
  // The highest load of the group if the sequence ran on all of it.
  const auto highest = [&](SequenceId q) {
    double most = 0;
    for (std::size_t r = first; r < end; ++r) {
      const double own = r == heavy ? load_on(0, q) : 0;
      most = std::max(most, load[r] + (load_on(k, q) - own) / problem.speed[r]);
    }
    return most;
  };
  std::vector<SequenceId>& own = assignment.own[heavy];
  const auto best = std::ranges::min_element(own, {}, highest);
  if (best == own.end() || highest(*best) > load[heavy] * (1 - least)) return false;
  const SequenceId q = *best;
  own.erase(best);
  assignment.merged.push_back({q, ReplicaId(first), static_cast<std::int32_t>(count)});
  load[heavy] -= load_on(0, q) / problem.speed[heavy];
  for (std::size_t r = first; r < end; ++r) load[r] += load_on(k, q) / problem.speed[r];
  return true;
}

/// Makes the assignments of one step.
class Assigning {
 public:
  explicit Assigning(const AssignProblem& problem)
      : lengths_(problem.lengths),
        speed_(problem.speed),
        groups_(problem.groups),
        order_(all_sequences(problem.lengths)) {
    const auto& [lengths, speed, groups] = problem;
    SLIMPACK_CHECK(!speed.empty() && !groups.empty());
    SLIMPACK_CHECK((std::size_t{1} << (groups.size() - 1)) <= speed.size());
    sort_longest_first(lengths_, order_);
    work_.reserve(order_.size());
    for (const SequenceId q : order_) work_.push_back(groups.front()(whole(lengths, q)));
    least_ = std::accumulate(work_.begin(), work_.end(), 0.0) /
             std::accumulate(speed.begin(), speed.end(), 0.0);
    if (order_.empty()) return;
    const Slice longest = whole(lengths, order_.front());
    least_ = std::max(least_, groups[lightest_group(longest, groups)](longest));
  }

  /// The sequences that are merged, largest groups first, then longest sequences. Their places are
  /// not chosen yet.
  [[nodiscard]] std::vector<MergedSequence> merged(double merge_above, Otherwise otherwise) const {
    std::vector<MergedSequence> merged;
    for (const SequenceId q : order_) {
      const std::size_t k = group_for(whole(lengths_, q), groups_, merge_above * least_, otherwise);
      if (k == 0) break;  // so are all that are shorter
      merged.push_back({q, ReplicaId(0), static_cast<std::int32_t>(std::int64_t{1} << k)});
    }
    sort_merged(lengths_, merged);
    return merged;
  }

  [[nodiscard]] Assignment around(std::vector<MergedSequence> merged,
                                  const std::optional<milp::SolveLimits>& exact) const {
    Assignment assignment;
    assignment.own.resize(speed_.size());
    assignment.load.assign(speed_.size(), 0);
    std::optional<GroupQueue> queue;
    for (MergedSequence& m : merged) {
      const auto count = static_cast<std::size_t>(m.replicas);
      if (!queue || queue->count() != count) queue.emplace(assignment.load, count);
      const std::size_t first = queue->pop();
      m.first = ReplicaId(first);
      const double share = groups_[std::bit_width(count) - 1](whole(lengths_, m.sequence));
      for (std::size_t r = first; r < first + count; ++r) assignment.load[r] += share / speed_[r];
      queue->push(first);
    }
    const std::size_t count = merged.size();
    assignment.merged = std::move(merged);
    balance_rest(count, exact, assignment);
    return assignment;
  }

  [[nodiscard]] std::optional<Assignment> fitted(double below) const {
    if (least_ >= below) return std::nullopt;
    Assignment assignment;
    assignment.own.resize(speed_.size());
    assignment.load.assign(speed_.size(), 0);
    const ShareProblem problem = share_problem();
    const std::size_t count = problem.load.front().size();
    if (count > 0) place(share_fit(problem), assignment);
    balance_rest(count, std::nullopt, assignment);
    if (*std::ranges::max_element(assignment.load) >= below) return std::nullopt;
    return assignment;
  }

 private:
  /// The sequences that are no short ones as items, the longest first.
  [[nodiscard]] ShareProblem share_problem() const {
    const double fastest = *std::ranges::max_element(speed_);
    ShareProblem problem{{}, {}, {speed_.begin(), speed_.end()}};
    problem.load.resize(groups_.size());
    std::size_t i = 0;
    for (; i < order_.size() && work_[i] > kShortSequence * least_ * fastest; ++i)
      for (std::size_t k = 0; k < groups_.size(); ++k)
        problem.load[k].push_back(groups_[k](whole(lengths_, order_[i])));
    problem.step = problem.load;
    for (auto& steps : problem.step)
      for (double& step : steps) step /= fastest;
    problem.more =
        std::accumulate(work_.begin() + static_cast<std::ptrdiff_t>(i), work_.end(), 0.0);
    return problem;
  }

  void place(const ShareFit& fit, Assignment& assignment) const {
    assignment.load = fit.load;
    for (std::size_t i = 0; i < fit.place.size(); ++i) {
      const auto [k, first] = fit.place[i];
      if (k == 0)
        assignment.own[first].push_back(order_[i]);
      else
        assignment.merged.push_back(
            {order_[i], ReplicaId(first), static_cast<std::int32_t>(std::int64_t{1} << k)});
    }
    sort_merged(lengths_, assignment.merged);
  }

  /// All but the `placed` longest sequences, around these.
  void balance_rest(std::size_t placed, const std::optional<milp::SolveLimits>& exact,
                    Assignment& assignment) const {
    const auto begin = static_cast<std::ptrdiff_t>(placed);
    const std::span<const SequenceId> rest(order_.begin() + begin, order_.end());
    BalanceProblem problem{{work_.begin() + begin, work_.end()}, {}};
    for (std::size_t r = 0; r < speed_.size(); ++r)
      problem.replicas.push_back({speed_[r], assignment.load[r]});
    Balance result = balance(problem);
    if (exact && placed == 0 && rest.size() * problem.replicas.size() <= kMaxExactBalance)
      result = balance_exact(problem, result, *exact);
    for (std::size_t i = 0; i < rest.size(); ++i)
      assignment.own[static_cast<std::size_t>(result.replica[i])].push_back(rest[i]);
    for (auto& own : assignment.own) std::sort(own.begin(), own.end());
    assignment.load = result.load;
  }

  const SequenceLengths& lengths_;
  std::span<const double> speed_;
  std::span<const PackCost> groups_;
  std::vector<SequenceId> order_;  ///< longest first, ties by id
  std::vector<double> work_;       ///< in this order
  double least_ = 0;               ///< no assignment's highest load is below it
};

}  // namespace

std::optional<Assignment> fitted(const AssignProblem& problem, double below) {
  return Assigning(problem).fitted(below);
}

Assignment levelled(const AssignProblem& problem, Assignment assignment, double least) {
  for (std::size_t k = 1; k < problem.groups.size(); ++k) {
    const std::size_t count = std::size_t{1} << k;
    for (std::size_t first = 0; first + count <= problem.speed.size(); first += count)
      while (level_group(problem, first, k, least, assignment)) continue;
  }
  sort_merged(problem.lengths, assignment.merged);
  return assignment;
}

Assignment assign(const AssignProblem& problem, double merge_above,
                  const std::optional<milp::SolveLimits>& exact) {
  const Assigning assigning(problem);
  return assigning.around(assigning.merged(merge_above, Otherwise::kLightest), exact);
}

std::vector<Assignment> assignments(const AssignProblem& problem,
                                    std::span<const double> merge_above) {
  SLIMPACK_CHECK(std::ranges::is_sorted(merge_above, std::greater<>()));
  const Assigning assigning(problem);
  std::vector<Assignment> out;
  std::set<std::vector<std::int32_t>> seen;  // sizes of groups, which say all
  for (const double above : merge_above)
    for (const Otherwise otherwise : {Otherwise::kLightest, Otherwise::kLargest}) {
      std::vector<MergedSequence> merged = assigning.merged(above, otherwise);
      std::vector<std::int32_t> sizes;
      for (const MergedSequence& m : merged) sizes.push_back(m.replicas);
      if (seen.insert(std::move(sizes)).second)
        out.push_back(assigning.around(std::move(merged), std::nullopt));
    }
  return out;
}

}  // namespace slimpack
