#include "slimpack/solver/bound_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "slimpack/solver/chain_bound.h"
#include "slimpack/solver/ramp_bound.h"

namespace slimpack {
namespace {

constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackward, Pass::kInputGradient};

std::size_t place(std::int32_t s, Pass pass) {
  return static_cast<std::size_t>(s) * std::size(kPasses) + static_cast<std::size_t>(pass);
}

/// The first slice of a sequence has at least this, the last one at least that: cuts are multiples
/// of the granularity.
Tokens shortest_head(Tokens length, Tokens granularity) {
  return std::min(length, granularity);
}
Tokens shortest_tail(Tokens length, Tokens granularity) {
  return Tokens((length.count() - 1) % granularity.count() + 1);
}

PackCost without_travel(PackCost cost) {
  cost.travel = {};
  return cost;
}

/// A MicroPack of one slice, without what travels.
double alone(const PackCost& cost, const Slice& slice) {
  return cost.per_pack + without_travel(cost)(slice);
}

/// The least that a sequence waits for what travels, whatever shares its MicroPacks. A MicroPack
/// waits for max(0, Σ least·q − hidden·pairs) or more. The second term is a sum over sequences, and
/// no term of it is negative where that of the longest is not. Slices that hide more than they send
/// take longer than what they hide, so they do not shorten a MicroPack of others; where that is
/// not sure, nothing is.
Travel certain_travel(const PackCost& cost, Tokens longest) {
  const double least = std::min(cost.travel.per_query, cost.travel.per_key);
  const double hidden = cost.travel.hidden_per_pair;
  if (hidden > (cost.windowed() ? cost.per_window_pair : cost.per_pair)) return {};
  const Slice whole{SequenceId(), Tokens(0), longest};
  const double pairs = cost.windowed() ? whole.window_pairs(cost.window) : whole.causal_pairs();
  if (least * static_cast<double>(longest.count()) <= hidden * pairs) return {};
  return {least, least, hidden};
}

}  // namespace

BoundTimes::BoundTimes(const BoundProblem& problem)
    : table_(problem.table),
      limits_(problem.limits),
      head_(limits_.granularity),
      tail_(limits_.granularity) {
  for (const Tokens length : problem.lengths) {
    head_ = std::min(head_, shortest_head(length, limits_.granularity));
    tail_ = std::min(tail_, shortest_tail(length, limits_.granularity));
    longest_ = std::max(longest_, length);
  }
  for (std::int32_t r = 0; r < ranks(); ++r) fastest_.push_back(std::ranges::max(speed_on(r)));
  for (std::int32_t s = 0; s < stages(); ++s) {
    for (const Pass pass : kPasses) {
      auto& costs = fastest_cost_.emplace_back();
      for (std::int32_t group = 1; group <= limits_.most_merged; group *= 2) {
        costs.push_back(cost_at_speed_1(s, pass, group) / fastest_on(s));
        costs.back().travel = certain_travel(costs.back(), longest_);
      }
    }
  }
  for (const Pass pass : kPasses) {
    auto& least = cheapest_.emplace_back(fastest_cost_[place(0, pass)]);
    for (std::int32_t s = 1; s < stages(); ++s)
      for (std::size_t k = 0; k < groups(); ++k)
        least[k] = smaller_terms(least[k], this->cost(s, pass, k));
  }
}

std::vector<double> BoundTimes::speed_on(std::int32_t rank) const {
  std::vector<double> speed;
  for (std::int32_t r = 0; r < table_.replication().replicas; ++r)
    speed.push_back(table_.replication().speed_of(ReplicaId(r), rank));
  return speed;
}

double BoundTimes::fastest_on(std::int32_t s) const {
  return fastest_[static_cast<std::size_t>(table_.layout().placement.rank_of(StageId(s)))];
}

PackCost BoundTimes::cost_at_speed_1(std::int32_t s, Pass pass, std::int32_t replicas) const {
  const Pass whole = goes_back(pass) ? Pass::kBackward : pass;
  if (may_skip(s, pass)) return {};
  PackCost out = table_.stage(StageId(s), whole, replicas);
  if (pass == Pass::kInputGradient && s > 0) {
    const EdgeTime weights = table_.weight_gradient(StageId(s));
    out.per_pack = std::max(0.0, out.per_pack - weights.per_pack);
    out.per_token = std::max(0.0, out.per_token - weights.per_token / replicas);
  }
  return out;
}

const PackCost& BoundTimes::cost(std::int32_t s, Pass pass, std::size_t k) const {
  return fastest_cost_[place(s, pass)][k];
}

PackCost BoundTimes::cost_on(std::int32_t rank, Pass pass, std::size_t k) const {
  PackCost sum;
  for (const StageId stage : table_.layout().placement.stages_of(rank))
    sum = sum + cost(stage.value(), pass, k);
  return sum;
}

bool BoundTimes::may_skip(std::int32_t s, Pass pass) const {
  return pass == Pass::kForward && table_.may_skip_forward(StageId(s));
}

double BoundTimes::transfer(Tokens tokens, std::size_t k) const {
  // While a message travels, its ranks may run E, H and G.
  if (table_.layout().spread_vocabulary) return 0;
  return table_.transfer(static_cast<double>(tokens.count()) /
                         static_cast<double>(std::int64_t{1} << k));
}

double BoundTimes::way(std::int32_t s, Pass pass) const {
  const Slice slice{SequenceId(), Tokens(0), head_};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < groups(); ++k) {
    double time = 0;
    for (std::int32_t before = 0; before < s; ++before)
      time += alone(cost(before, pass, k), slice) + transfer(head_, k);
    least = std::min(least, time);
  }
  return least;
}

double BoundTimes::shortest_action() const {
  const Slice slice{SequenceId(), Tokens(0), tail_};
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t s = 0; s < stages(); ++s)
    for (std::size_t k = 0; k < groups(); ++k)
      for (const Pass pass : {Pass::kForward, Pass::kInputGradient})
        if (!may_skip(s, pass)) least = std::min(least, alone(cost(s, pass, k), slice));
  return least;
}

PackCost BoundTimes::load(std::int32_t rank, Pass backward, std::size_t k) const {
  return fastest_[static_cast<std::size_t>(rank)] *
             (cost_on(rank, Pass::kForward, k) + cost_on(rank, backward, k)) +
         vocabulary(backward, k);
}

/// No rank runs anything else meanwhile. G may run after what is sent.
PackCost BoundTimes::vocabulary(Pass backward, std::size_t k) const {
  PackCost sum;
  if (!table_.layout().spread_vocabulary) return sum;
  for (const Pass pass : kJointPasses)
    if (pass != Pass::kEmbeddingGradient || backward == Pass::kBackward)
      sum.per_token +=
          table_.vocabulary(pass).per_token / static_cast<double>(std::int64_t{1} << k);
  return sum;
}

double BoundTimes::around(std::int32_t rank, Pass backward) const {
  return way(rank, Pass::kForward) + cost_on(rank, Pass::kForward, 0).per_pack +
         cost_on(rank, backward, 0).per_pack +
         (backward == Pass::kInputGradient ? way(rank, Pass::kInputGradient) : 0);
}

double BoundTimes::least_ratio(std::int32_t s, std::int32_t of, Pass pass) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < groups(); ++k) {
    const PackCost& a = cost(s, pass, k);
    const PackCost& b = cost(of, pass, k);
    for (const auto term : {&PackCost::per_pack, &PackCost::per_token, &PackCost::per_pair,
                            &PackCost::per_window_pair})
      if (b.*term > 0) least = std::min(least, a.*term / b.*term);
  }
  return std::isfinite(least) ? least : 0;
}

/// A sequence's ratio is a mean of the terms' ratios. The longer it is, the more pairs weigh.
std::pair<double, double> BoundTimes::backward_ratios(std::int32_t s, Pass backward) const {
  std::pair ratios(std::numeric_limits<double>::infinity(), 0.0);
  const auto add = [&](double forward, double back) {
    if (forward <= 0 && back <= 0) return;
    const double ratio = forward > 0 ? back / forward : std::numeric_limits<double>::infinity();
    ratios = {std::min(ratios.first, ratio), std::max(ratios.second, ratio)};
  };
  const double pairs = Slice{SequenceId(), Tokens(0), longest_}.causal_pairs();
  const auto tokens = static_cast<double>(longest_.count());
  for (std::size_t k = 0; k < groups(); ++k) {
    const PackCost& f = cost(s, Pass::kForward, k);
    const PackCost& b = cost(s, backward, k);
    add(f.per_token, b.per_token);
    if (f.windowed() || b.windowed()) {
      add(f.per_pair, b.per_pair);
      add(f.per_window_pair, b.per_window_pair);
    } else {
      add(f.per_token * tokens + f.per_pair * pairs, b.per_token * tokens + b.per_pair * pairs);
    }
  }
  return ratios;
}

/// Backward takes `least` to `most` times as long as forward. So of a work of W forward has
/// W/(1 + most) or more, backward W·least/(1 + least). The begin of the step may have forwards of x
/// and backwards of x·most, the end backwards of y and forwards of y/least: any x and y for which
/// both ends together have no more than all of either pass.
double BoundTimes::ramps(std::int32_t rank, Pass backward, double work) const {
  constexpr int kParts = 16;
  const StageLayout& layout = table_.layout();
  const auto speeds_differ = [](const std::vector<double>& speed) {
    return std::ranges::any_of(speed, [&](double s) { return s != speed.front(); });
  };
  if (rank == 0 || layout.placement.stages_per_rank() > 1 || layout.spread_vocabulary ||
      limits_.exchange_context || work <= 0)
    return 0;
  for (std::int32_t r = 0; r <= rank; ++r)
    if (may_skip(r, Pass::kForward) || speeds_differ(speed_on(r))) return 0;
  const auto [least, most] = backward_ratios(rank, backward);
  if (least <= 0 || !std::isfinite(most)) return 0;
  const auto pass_on = [&](Pass pass, double other) {
    RampPass out{cost(rank, pass, 0).per_pack, least_ratio(0, rank, pass), 0, other};
    for (std::int32_t s = 1; s < rank; ++s) out.between += least_ratio(s, rank, pass);
    return out;
  };
  const double forward = work / (1 + most), back = work * least / (1 + least);
  const RampPass begin = pass_on(Pass::kForward, most), end = pass_on(backward, 1 / least);
  // Weight gradients that wait fill the end.
  if (backward == Pass::kBackward && table_.splits_backward())
    return ramp_bound(begin, std::min(forward, back / most)) + cost(rank, backward, 0).per_pack +
           rank * transfer(Tokens(0), 0);
  double longest = 0;
  for (int part = 1; part < kParts; ++part) {
    const double at_end = std::min(forward * least, back) * part / kParts;
    const double at_begin = std::min(forward - at_end / least, (back - at_end) / most);
    longest = std::max(longest, ramp_bound(begin, at_begin) + ramp_bound(end, at_end));
  }
  return longest + 2 * rank * transfer(Tokens(0), 0);
}

/// n slices take work + n · overhead, and the largest of them work / n + overhead again at each of
/// the hand-overs. That is least, for a real n of 1 or more, where both terms with n are equal; it
/// falls up to there.
double BoundTimes::through(Tokens length, Pass pass, std::size_t k, double most_slices) const {
  const PackCost& cost = cheapest_[static_cast<std::size_t>(pass)][k];
  const double overhead = cost.per_pack + cost.per_slice;
  const double work = cost(Slice{SequenceId(), Tokens(0), length}) - cost.per_slice;
  const double hops = this->hops();
  const double best = std::max(
      1.0, overhead > 0 ? std::sqrt(hops * work / overhead) : static_cast<double>(length.count()));
  const double slices = std::min(best, most_slices);
  return work + slices * overhead + hops * (work / slices + overhead + transfer(Tokens(0), k));
}

SliceLoads BoundTimes::slice_loads(std::int32_t rank, Pass backward, std::size_t k,
                                   bool packs) const {
  const auto load = [&](Pass pass) {
    const PackCost cost = fastest_[static_cast<std::size_t>(rank)] * cost_on(rank, pass, k);
    return cost.per_slice + (packs ? cost.per_pack : 0);
  };
  return {load(Pass::kForward), load(backward)};
}

/// The forward slices may add any part of the load, the backward slices the rest. Between two parts
/// that are tried, either pass has no more slices than at the one that gives it more.
double BoundTimes::chain_within(Tokens length, std::size_t k, const SliceLoads& slices,
                                double load) const {
  constexpr int kParts = 16;
  const auto pass_within = [&](Pass pass, double each, double part) {
    const double most = each > 0 ? 1 + part * load / each : static_cast<double>(length.count());
    return through(length, pass, k, most);
  };
  double least = std::numeric_limits<double>::infinity();
  for (int part = 0; part < kParts; ++part)
    least = std::min(least, pass_within(Pass::kForward, slices.forward, (part + 1.0) / kParts) +
                                pass_within(Pass::kInputGradient, slices.backward,
                                            1 - static_cast<double>(part) / kParts));
  return least;
}

double BoundTimes::messages_chain(Tokens length, std::size_t k) const {
  if (hops() == 0) return 0;
  double time = 0;
  for (const Pass pass : {Pass::kForward, Pass::kInputGradient}) {
    std::vector<PackCost> costs;
    for (std::int32_t s = 0; s < stages(); ++s)
      costs.push_back(cost_at_speed_1(s, pass, std::int32_t{1} << k) / fastest_on(s));
    const auto sends = [](const PackCost& cost) { return cost.travel != Travel(); };
    if (std::ranges::none_of(costs, sends)) return 0;
    if (goes_back(pass)) std::ranges::reverse(costs);
    time += chain_bound(costs, length) + hops() * transfer(Tokens(0), k);
  }
  return time;
}

double BoundTimes::chain(Tokens length, std::size_t k) const {
  const Slice whole{SequenceId(), Tokens(0), length};
  const Slice tail{SequenceId(), length - shortest_tail(length, limits_.granularity), length};
  const Slice head{SequenceId(), Tokens(0), shortest_head(length, limits_.granularity)};
  const PackCost& first = cost(0, Pass::kForward, k);
  const PackCost& last = cost(stages() - 1, Pass::kInputGradient, k);
  double time = first.per_pack + first(whole) + last.per_pack + last(whole);
  for (std::int32_t s = 1; s < stages(); ++s) {
    // A longer last slice has a shorter prefix; a slice to the end is a concave function of its
    // begin, so it is cheapest as short or as long as it can be.
    const PackCost& forward = cost(s, Pass::kForward, k);
    time += std::min(alone(forward, tail), alone(forward, whole)) +
            alone(cost(s - 1, Pass::kInputGradient, k), head) + transfer(tail.length(), k) +
            transfer(head.length(), k);
  }
  const auto any = static_cast<double>(length.count());
  return std::max(time, through(length, Pass::kForward, k, any) +
                            through(length, Pass::kInputGradient, k, any));
}

}  // namespace slimpack
