#include "slimpack/solver/step_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "slimpack/cost/reduction.h"
#include "slimpack/solver/balance.h"

namespace slimpack {
namespace {

/// The first slice of a sequence has at least this, the last one at least that: cuts are multiples
/// of the granularity.
Tokens shortest_head(Tokens length, Tokens granularity) {
  return std::min(length, granularity);
}
Tokens shortest_tail(Tokens length, Tokens granularity) {
  return Tokens((length.count() - 1) % granularity.count() + 1);
}

class Bound {
 public:
  Bound(const Job& job, const SequenceLengths& lengths, const RecomputingCosts& cost,
        const CutLimits& limits)
      : job_(job), lengths_(lengths), cost_(cost), limits_(limits) {
    head_ = limits_.granularity;
    tail_ = limits_.granularity;
    for (const Tokens length : lengths_) {
      head_ = std::min(head_, shortest_head(length, limits_.granularity));
      tail_ = std::min(tail_, shortest_tail(length, limits_.granularity));
    }
    for (std::int32_t s = 0; s < job_.layout.stages(); ++s) {
      fastest_.push_back(job_.speed.empty() ? 1.0 : 0.0);
      for (const auto& replica : job_.speed)
        fastest_.back() = std::max(fastest_.back(), replica[static_cast<std::size_t>(s)]);
    }
  }

  /// Times are rounded to nanoseconds action by action and hop by hop, so a plan may come out a
  /// little shorter than the sum of its unrounded times.
  [[nodiscard]] Nanos run() const {
    constexpr double kFloatingPoint = 1e-12;
    double bound = chains();
    for (const Pass backward : {Pass::kBackward, Pass::kInputGradient}) {
      bound = std::max(bound, work(backward));
      if (limits_.most_merged == 1) bound = std::max(bound, balance_of_stages(backward));
    }
    // What is sent of a split backward is the difference of two rounded times.
    const double off = cost_.weight_gradient == EdgeTime() ? 0.5 : 1;
    const double rounding = std::min(1.0, off / shortest_action() + kFloatingPoint);
    const double hops = stages() - 1;  // there and back, half a nanosecond each
    return Nanos(static_cast<std::int64_t>(std::max(0.0, bound * (1 - rounding) - hops)));
  }

 private:
  [[nodiscard]] std::int32_t stages() const { return job_.layout.stages(); }

  /// At speed 1. Of kInputGradient backward until its output can be sent, which is less where
  /// weight gradients can wait and the output goes anywhere.
  [[nodiscard]] PackCost cost(std::int32_t s, Pass pass, std::int32_t group = 1) const {
    const Pass whole = goes_back(pass) ? Pass::kBackward : pass;
    if (may_skip(s, pass)) return {};
    PackCost out = stage_cost(cost_, job_.layout, StageId(s), whole, group);
    if (pass == Pass::kInputGradient && s > 0) {
      const EdgeTime weights = stage_weight_gradient(cost_, job_.layout, StageId(s));
      out.per_pack = std::max(0.0, out.per_pack - weights.per_pack);
      out.per_token = std::max(0.0, out.per_token - weights.per_token / group);
    }
    return out;
  }

  /// Whether a stage under autograd can leave a forward to its backward.
  [[nodiscard]] bool may_skip(std::int32_t s, Pass pass) const {
    return cost_.autograd && pass == Pass::kForward && s == stages() - 1 &&
           !keeps_graphs(cost_, job_.layout, StageId(s));
  }

  /// Of a MicroPack of one slice, at the fastest replica's speed.
  [[nodiscard]] double time_of(std::int32_t s, Pass pass, std::int32_t group,
                               const Slice& slice) const {
    const PackCost own = cost(s, pass, group);
    return (own.per_pack + own(slice)) / fastest_[static_cast<std::size_t>(s)];
  }

  [[nodiscard]] double transfer(Tokens tokens, std::int32_t group) const {
    const auto bytes =
        static_cast<double>(cost_.shape.hidden_size * element_bytes(cost_.dtype) * tokens.count());
    return cost_.transfer_latency + cost_.transfer_per_byte * bytes / group;
  }

  /// The least time of one slice on stages [0, s), with their transfers, on the best group. The
  /// first forwards and the last backwards of a replica are of first slices.
  [[nodiscard]] double way(std::int32_t s, Pass pass) const {
    const Slice slice{SequenceId(), Tokens(0), head_};
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t group = 1; group <= limits_.most_merged; group *= 2) {
      double time = 0;
      for (std::int32_t before = 0; before < s; ++before)
        time += time_of(before, pass, group, slice) + transfer(head_, group);
      least = std::min(least, time);
    }
    return least;
  }

  /// No action takes less, on any stage and in any group.
  [[nodiscard]] double shortest_action() const {
    const Slice slice{SequenceId(), Tokens(0), tail_};
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t s = 0; s < stages(); ++s)
      for (std::int32_t group = 1; group <= limits_.most_merged; group *= 2)
        for (const Pass pass : {Pass::kForward, Pass::kInputGradient})
          if (!may_skip(s, pass)) least = std::min(least, time_of(s, pass, group, slice));
    return least;
  }

  /// By sequence: its time on a stage, uncut, at speed 1.
  [[nodiscard]] std::vector<double> works_on(std::int32_t s, Pass pass) const {
    const PackCost forward = cost(s, Pass::kForward);
    const PackCost backward = cost(s, pass);
    std::vector<double> works;
    works.reserve(lengths_.size());
    for (const Tokens length : lengths_) {
      const Slice whole{SequenceId(), Tokens(0), length};
      works.push_back(forward(whole) + backward(whole));
    }
    return works;
  }

  /// What a working replica's stage has beside its sequences: the way in, a pack each way, and,
  /// after what is sent, the way out.
  [[nodiscard]] double around(std::int32_t s, Pass backward) const {
    const double packs = cost(s, Pass::kForward).per_pack + cost(s, backward).per_pack;
    return way(s, Pass::kForward) + packs / fastest_[static_cast<std::size_t>(s)] +
           (backward == Pass::kInputGradient ? way(s, Pass::kInputGradient) : 0);
  }

  [[nodiscard]] double work(Pass backward) const {
    double bound = 0;
    for (std::int32_t s = 0; s < stages(); ++s) {
      const std::vector<double> works = works_on(s, backward);
      const double sum = std::accumulate(works.begin(), works.end(), 0.0);
      double speed = job_.speed.empty() ? job_.replicas : 0.0;
      for (const auto& replica : job_.speed) speed += replica[static_cast<std::size_t>(s)];
      bound = std::max(bound, around(s, backward) + sum / speed);
    }
    return bound;
  }

  [[nodiscard]] double chain(Tokens length, std::int32_t group) const {
    const Slice whole{SequenceId(), Tokens(0), length};
    const Slice tail{SequenceId(), length - shortest_tail(length, limits_.granularity), length};
    const Slice head{SequenceId(), Tokens(0), shortest_head(length, limits_.granularity)};
    double time = time_of(0, Pass::kForward, group, whole) +
                  time_of(stages() - 1, Pass::kInputGradient, group, whole);
    for (std::int32_t s = 1; s < stages(); ++s) {
      // A longer last slice has a shorter prefix; a slice to the end is a concave function of its
      // begin, so it is cheapest as short or as long as it can be.
      time += std::min(time_of(s, Pass::kForward, group, tail),
                       time_of(s, Pass::kForward, group, whole)) +
              time_of(s - 1, Pass::kInputGradient, group, head) + transfer(tail.length(), group) +
              transfer(head.length(), group);
    }
    return time;
  }

  /// Of the longest sequence, which has the longest chain but for the size of its last slice.
  [[nodiscard]] double chains() const {
    const Tokens longest = *std::max_element(lengths_.begin(), lengths_.end());
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t group = 1; group <= limits_.most_merged; group *= 2)
      least = std::min(least, chain(longest, group));
    return least;
  }

  [[nodiscard]] double balance_of_stages(Pass backward) const {
    double bound = 0;
    for (std::int32_t s = 0; s < stages(); ++s) {
      BalanceProblem balance{works_on(s, backward), {}};
      for (std::int32_t r = 0; r < job_.replicas; ++r)
        balance.replicas.push_back(
            {job_.speed.empty()
                 ? 1.0
                 : job_.speed[static_cast<std::size_t>(r)][static_cast<std::size_t>(s)],
             0.0});
      bound = std::max(bound, around(s, backward) + balance_bound(balance));
    }
    return bound;
  }

  const Job& job_;
  const SequenceLengths& lengths_;
  const RecomputingCosts& cost_;
  CutLimits limits_;
  Tokens head_;                  ///< of the shortest first slice
  Tokens tail_;                  ///< of the shortest last slice
  std::vector<double> fastest_;  ///< by stage
};

/// By coefficient the larger one.
PackCost larger(const PackCost& a, const PackCost& b) {
  return {std::max(a.per_pack, b.per_pack),
          std::max(a.per_slice, b.per_slice),
          std::max(a.per_token, b.per_token),
          std::max(a.per_pair, b.per_pair),
          std::max(a.per_prefix_token, b.per_prefix_token),
          std::max(a.per_window_pair, b.per_window_pair),
          std::max(a.per_window_prefix, b.per_window_prefix),
          std::max(a.window, b.window)};
}

/// What no last action of the first stage exceeds, in nanoseconds at speed 1, whatever the layers
/// compute again: one with slices of all sequences, each with the tokens and the prefix of the
/// whole one.
double longest_last_action(const Job& job, const SequenceLengths& lengths,
                           const RecomputingCosts& cost, const CutLimits& limits) {
  const StageId first(std::int32_t{0});
  const Costs& plain = cost;
  PackCost dearest;
  for (std::int32_t group = 1; group <= limits.most_merged; group *= 2)
    for (const Recompute recompute : known_recomputations(plain))
      dearest = larger(dearest, stage_cost(with_recompute(plain, recompute), job.layout, first,
                                           Pass::kBackward, group));
  double time = dearest.per_pack;
  for (const Tokens length : lengths)
    time += dearest({SequenceId(), Tokens(0), length}) +
            (dearest.per_prefix_token + dearest.per_window_prefix) *
                static_cast<double>(length.count());
  return std::max(time,
                  shared_state_traffic(cost, job.layout, first, job.replicas, Pass::kBackward));
}

/// What of the first stage's reduction any plan's last action there leaves.
double least_reduction(const Job& job, const SequenceLengths& lengths, const RecomputingCosts& cost,
                       const CutLimits& limits) {
  constexpr double kRounding = 1;  // of the action's time
  double slowest = 1;
  for (const auto& replica : job.speed) slowest = std::min(slowest, replica.front());
  return reduction_after(cost, job.layout, StageId(std::int32_t{0}), job.replicas,
                         longest_last_action(job, lengths, cost, limits) / slowest + kRounding);
}

}  // namespace

Nanos step_actions_bound(const Job& job, const SequenceLengths& lengths,
                         const RecomputingCosts& cost, const CutLimits& limits) {
  return Bound(job, lengths, cost, limits).run();
}

Nanos step_lower_bound(const Job& job, const SequenceLengths& lengths, const RecomputingCosts& cost,
                       const CutLimits& limits) {
  const TaskTimes ends = task_times(cost, job.layout, {}, {job.replicas, {}});
  const Nanos step_end = *std::max_element(ends.step_end.begin(), ends.step_end.end());
  double speed = 1;
  for (const auto& replica : job.speed)
    speed = std::max(speed, *std::max_element(replica.begin(), replica.end()));
  const double reduce = cost.autograd ? static_cast<double>(ends.reduce.front().count())
                                      : least_reduction(job, lengths, cost, limits);
  const auto rest = (reduce + static_cast<double>(step_end.count())) / speed;
  return step_actions_bound(job, lengths, cost, limits) + Nanos(static_cast<std::int64_t>(rest));
}

}  // namespace slimpack
