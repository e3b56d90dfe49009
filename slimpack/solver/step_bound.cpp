#include "slimpack/solver/step_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/solver/balance.h"
#include "slimpack/solver/bound_times.h"
#include "slimpack/solver/memory_fit.h"
#include "slimpack/solver/share_bound.h"

namespace slimpack {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Backward as a whole, and until its output can be sent.
constexpr Pass kBackwards[] = {Pass::kBackward, Pass::kInputGradient};

/// Ranks with less of the work of the busiest one are not looked at closely.
constexpr double kBusy = 0.9;

/// So many of the longest sequences may need groups whose messages are looked at slice by slice.
constexpr std::size_t kMostMessages = 4;

/// Further slices of a sequence, both passes together, that the share bound tells apart.
constexpr double kMostCounted = 256;
constexpr double kNextCounted = 1.25;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

SequenceLengths longest_first(SequenceLengths lengths) {
  std::ranges::sort(lengths, std::greater<>());
  return lengths;
}

class Bound {
 public:
  /// Keeps a reference to the table.
  explicit Bound(const BoundProblem& problem)
      : longest_first_(longest_first(problem.lengths)),
        whole_(longest_first_),
        memory_(problem),
        times_(problem),
        roundings_((problem.table.splits_backward() ? 2 : 1) +
                   (problem.limits.exchange_context ? 1 : 0)) {}

  [[nodiscard]] Nanos run() const {
    double bound = chain_of_longest();
    for (const Pass backward : kBackwards) {
      for (std::int32_t r = 0; r < times_.ranks(); ++r) bound = std::max(bound, work(r, backward));
      if (times_.groups() == 1) bound = std::max(bound, balance_of_ranks(backward));
    }
    for (const Pass backward : kBackwards) bound = shared(backward, bound);
    return without_rounding(bound);
  }

  /// Nanoseconds of all ranks together, which share everything out evenly.
  [[nodiscard]] double shared_by_ranks() const {
    double bound = 0;
    for (const Pass backward : kBackwards) {
      double all = 0, speed = 0, around = kNever;
      for (std::int32_t r = 0; r < times_.ranks(); ++r) {
        all += sum(works(r, backward));
        speed += sum(times_.speed_on(r));
        around = std::min(around, times_.around(r, backward));
      }
      bound = std::max(bound, around + all / speed);
    }
    return bound;
  }

  /// Times are rounded to nanoseconds action by action and hop by hop, so a plan may come out a
  /// little shorter than the sum of its unrounded times.
  [[nodiscard]] Nanos without_rounding(double bound) const {
    constexpr double kFloatingPoint = 1e-12;
    const double rounding =
        std::min(1.0, 0.5 * roundings_ / times_.shortest_action() + kFloatingPoint);
    // There and back, half a nanosecond each.
    return Nanos(static_cast<std::int64_t>(std::max(0.0, bound * (1 - rounding) - times_.hops())));
  }

 private:
  /// The longest sequence has the longest chain but for the size of its last slice.
  [[nodiscard]] double chain_of_longest() const {
    double least = kNever;
    for (std::size_t k = 0; k < times_.groups(); ++k)
      least = std::min(least, times_.chain(longest_first_.front(), k));
    return least;
  }

  /// The work of each sequence, the longest first.
  [[nodiscard]] std::vector<double> works(std::int32_t rank, Pass backward) const {
    const PackCost load = times_.load(rank, backward, 0);
    std::vector<double> works;
    works.reserve(longest_first_.size());
    for (const Tokens length : longest_first_)
      works.push_back(load(Slice{SequenceId(), Tokens(0), length}));
    return works;
  }

  /// Every replica has this beside its sequences, or is done sooner than the step.
  [[nodiscard]] double around(std::int32_t rank, Pass backward) const {
    const double work =
        whole_.time(adding_up(times_.load(rank, backward, 0))) / sum(times_.speed_on(rank));
    return std::max(times_.around(rank, backward), times_.ramps(rank, backward, work));
  }

  /// The time of a rank, with all sequences evenly shared out.
  [[nodiscard]] double work(std::int32_t rank, Pass backward) const {
    return around(rank, backward) + sum(works(rank, backward)) / sum(times_.speed_on(rank));
  }

  [[nodiscard]] double balance_of_ranks(Pass backward) const {
    double bound = 0;
    for (std::int32_t r = 0; r < times_.ranks(); ++r) {
      BalanceProblem balance{works(r, backward), {}};
      for (const double speed : times_.speed_on(r)) balance.replicas.push_back({speed, 0.0});
      bound = std::max(bound, around(r, backward) + balance_bound(balance));
    }
    return bound;
  }

  /// The greatest share bound of the ranks with the most work; at least `known`. Of ranks with as
  /// much work the last one has the longest way in and out. More replicas change none of this.
  [[nodiscard]] double shared(Pass backward, double known) const {
    std::map<double, std::int32_t> last_with;
    for (std::int32_t r = 0; r < times_.ranks(); ++r)
      last_with[sum(works(r, backward)) / sum(times_.speed_on(r))] = r;
    const double most = last_with.rbegin()->first;
    for (const auto& [work, rank] : last_with)
      if (work >= kBusy * most)
        known =
            std::max(known, least_recomputing(share_problem(rank, backward, known), rank, known));
    return known;
  }

  /// The two backward passes ask for the same.
  [[nodiscard]] double messages_chain(Tokens length, std::size_t k) const {
    const auto [at, first] = messages_chains_.try_emplace({length, k});
    if (first) at->second = times_.messages_chain(length, k);
    return at->second;
  }

  /// Its items are sequences that may have to be merged or that fill much of a replica, the longest
  /// first. The time of the other sequences is shared out anyhow.
  [[nodiscard]] ShareProblem share_problem(std::int32_t rank, Pass backward, double known) const {
    ShareProblem problem{{}, {}, times_.speed_on(rank), around(rank, backward)};
    problem.load.resize(times_.groups());
    problem.step.resize(times_.groups());
    problem.cut.resize(times_.groups());
    const double fastest = std::ranges::max(problem.speed);
    const auto whole = [](Tokens length) { return Slice{SequenceId(), Tokens(0), length}; };
    const auto load = [&](Tokens length, std::size_t k) {
      return times_.load(rank, backward, k)(whole(length));
    };
    const auto step = [&](Tokens length, std::size_t k) {
      return memory_.holds(length, k)
                 ? std::max(times_.chain(length, k), problem.around + load(length, k) / fastest)
                 : kNever;
    };
    std::size_t closely = kMostMessages;
    const double large = kLeastShare * fastest * (known - problem.around);
    auto length = longest_first_.begin();
    for (; length != longest_first_.end(); ++length) {
      if (length != longest_first_.begin() && load(*length, 0) < large && step(*length, 0) <= known)
        break;
      const bool shared = step(*length, 0) > known && closely > 0;
      if (shared) --closely;
      for (std::size_t k = 0; k < times_.groups(); ++k) {
        problem.load[k].push_back(load(*length, k));
        problem.step[k].push_back(step(*length, k));
        if (shared && k > 0 && problem.step[k].back() < kNever)
          problem.step[k].back() = std::max(problem.step[k].back(), messages_chain(*length, k));
        const bool longest = length == longest_first_.begin();
        const SliceLoads slices = times_.slice_loads(rank, backward, k, longest);
        problem.cut[k].push_back(cut_loads(*length, k, slices, load(*length, k), known));
      }
    }
    for (; length != longest_first_.end(); ++length) problem.more += load(*length, 0);
    return problem;
  }

  /// Short steps take a sequence through the pipeline in many slices, each of which adds to the
  /// load. MicroPacks may have slices of several sequences, but only one of the longest each.
  [[nodiscard]] std::vector<CutLoad> cut_loads(Tokens length, std::size_t k,
                                               const SliceLoads& slices, double load,
                                               double known) const {
    std::vector<CutLoad> out;
    const double pair = slices.forward + slices.backward;
    if (pair <= 0 || times_.hops() == 0) return out;
    for (double count = 0.5; count < kMostCounted; count *= kNextCounted) {
      const double below = times_.chain_within(length, k, slices, count * pair);
      if (below <= known) break;
      out.push_back({below, load + count * pair});
    }
    return out;
  }

  /// The longest sequence takes the least memory and the most time on a large group. The group that
  /// it runs on says what layers have to compute again.
  [[nodiscard]] double least_recomputing(const ShareProblem& problem, std::int32_t rank,
                                         double known) const {
    double least = kNever;
    for (std::size_t k = 0; k < times_.groups(); ++k) {
      if (problem.step[k].front() == kNever) continue;
      const double again = memory_.again(rank, longest_first_.front(), k);
      const bool free = again == 0;
      ShareProblem on_group = problem;
      on_group.more += again;
      for (std::size_t other = 0; other < times_.groups(); ++other)
        if (free ? other < k : other != k) on_group.step[other].front() = kNever;
      least = std::min(least, share_bound(on_group, known));
      if (free) break;
    }
    // Where nothing fits there is no plan to bound.
    return least == kNever ? known : least;
  }

  SequenceLengths longest_first_;
  WholeSequences whole_;
  MemoryFit memory_;
  BoundTimes times_;
  mutable std::map<std::pair<Tokens, std::size_t>, double> messages_chains_;  ///< those known
  /// How many rounded times make up an action's time: one; two for a split backward, whose sent
  /// part is the difference of two rounded times; and one more for an exchange.
  int roundings_;
};

/// An upper bound of the last action of the first stage, in nanoseconds at speed 1, whatever the
/// layers compute again: an action with slices of all sequences, each with the tokens and the
/// prefix of the whole one.
double longest_last_action(const BoundProblem& problem) {
  const StageTable& table = problem.table;
  const StageId first(std::int32_t{0});
  PackCost dearest;
  for (const Recompute recompute : table.abilities().recomputations) {
    const StageTable recomputing = table.recomputing(recompute);
    for (std::int32_t group = 1; group <= problem.limits.most_merged; group *= 2)
      dearest = larger_terms(dearest, recomputing.stage(first, Pass::kBackward, group));
  }
  double time = dearest.per_pack;
  for (const Tokens length : problem.lengths)
    time += dearest({SequenceId(), Tokens(0), length}) +
            (dearest.per_prefix_token + dearest.per_window_prefix) *
                static_cast<double>(length.count());
  return std::max(time, table.shared_state_traffic(first, Pass::kBackward));
}

/// The least of the first stage's reduction that the last action there leaves, in any plan.
double least_reduction(const BoundProblem& problem) {
  constexpr double kRoundedTime = 1;  // of the action's time
  double slowest = 1;
  for (const auto& replica : problem.table.replication().speed)
    slowest = std::min(slowest, replica.front());
  return problem.table.least_reduction(longest_last_action(problem) / slowest + kRoundedTime);
}

/// The least share of its attention that a rank keeps. The share that it gives away runs at the
/// same time, on a rank that may be faster.
double kept_share(const Replication& replication) {
  double slowest = 1, fastest = 1;
  for (const auto& replica : replication.speed)
    for (const double speed : replica) {
      slowest = std::min(slowest, speed);
      fastest = std::max(fastest, speed);
    }
  return slowest / (slowest + fastest);
}

}  // namespace

Nanos step_actions_bound(const BoundProblem& problem) {
  const Bound whole(problem);
  if (!problem.limits.exchange_context) return whole.run();
  const StageTable kept_table =
      problem.table.with_attention(kept_share(problem.table.replication()));
  const Bound kept({kept_table, problem.lengths, problem.limits});
  return std::max(kept.run(), kept.without_rounding(whole.shared_by_ranks()));
}

Nanos step_lower_bound(const BoundProblem& problem) {
  const StageTable& table = problem.table;
  const TaskTimes ends = table.at_speed_1().times({});
  const Nanos step_end = *std::max_element(ends.step_end.begin(), ends.step_end.end());
  double speed = 1;
  for (const auto& replica : table.replication().speed)
    speed = std::max(speed, *std::max_element(replica.begin(), replica.end()));
  const double reduce = least_reduction(problem);
  const auto rest = (reduce + static_cast<double>(step_end.count())) / speed;
  return step_actions_bound(problem) + Nanos(static_cast<std::int64_t>(rest));
}

}  // namespace slimpack
