#include "slimpack/planner/baseline_bounds.h"

#include <algorithm>
#include <limits>

#include "slimpack/solver/step_bound.h"

namespace slimpack {

BaselineBounds::BaselineBounds(const StageTable& table, const SequenceLengths& lengths,
                               std::int32_t most_merged)
    : table_(table), free_sharing_(table.with_free_sharing()), lengths_(lengths) {
  const auto& speed = table.replication().speed;
  for (std::int32_t s = 0; s < table.layout().stages(); ++s) {
    const auto rank = static_cast<std::size_t>(table.layout().placement.rank_of(StageId(s)));
    fastest_.push_back(speed.empty() ? 1.0 : 0.0);
    for (const auto& replica : speed) fastest_.back() = std::max(fastest_.back(), replica[rank]);
  }
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  whole_ = step_lower_bound({table, lengths, {1, longest}});
  rest_ = whole_ - step_actions_bound({table, lengths, {1, longest}});
  cut_ = step_lower_bound({table, lengths, {1, Tokens(1)}});
  merged_ = step_lower_bound({table, lengths, {most_merged, longest}});
  remapped_ = step_lower_bound({free_sharing_, lengths, {most_merged, longest}});
}

Nanos BaselineBounds::of_kind(const BaselineTraits& traits) const {
  return traits.remaps ? remapped_ : traits.merges ? merged_ : traits.cuts ? cut_ : whole_;
}

Nanos BaselineBounds::of_packs(const BaselineTraits& traits, const SequencePacks& packs,
                               std::int32_t group) {
  const GroupWorks& known = works(traits, group);
  double longest = 0;
  for (const auto& pack : packs) {
    const Work work = pack_work(known, pack);
    longest = std::max(longest, traits.cuts ? work.chained : work.in + work.last + work.out);
  }
  return bound(longest, 1);
}

ShareBound BaselineBounds::of_shares(const BaselineTraits& traits,
                                     const std::vector<SequencePacks>& shares, std::int32_t group,
                                     const Tuning& tuning) {
  const GroupWorks& known = works(traits, group);
  const std::int32_t slices = std::max(1, tuning.slices);
  double longest = 0;
  std::size_t actions = 0, heaviest = 0;
  for (const SequencePacks& share : shares) {
    double first = 0, last = 0;
    double in = std::numeric_limits<double>::infinity(), out = in;
    for (const auto& pack : share) {
      const Work work = pack_work(known, pack);
      const double more = traits.cuts && !tuning.tails ? slices_more(pack, slices) : 0;
      first += work.first + more * known.pack.first;
      last += work.last + more * known.pack.last;
      in = std::min(in, traits.cuts ? known.pack.in : work.in);
      out = std::min(out, traits.cuts ? 0 : work.out);
    }
    if (share.empty()) continue;
    actions = std::max(actions, share.size() * static_cast<std::size_t>(slices));
    const double own = std::max(first, in + last + out);
    if (own > longest) heaviest = static_cast<std::size_t>(&share - shares.data());
    longest = std::max(longest, own);
  }
  return {bound(longest, actions), heaviest};
}

BaselineBounds::Work& BaselineBounds::Work::operator+=(const Work& other) {
  first += other.first;
  last += other.last;
  in += other.in;
  out += other.out;
  chained += other.chained;
  return *this;
}

const BaselineBounds::GroupWorks& BaselineBounds::works(const BaselineTraits& traits,
                                                        std::int32_t group) {
  const auto [at, first] = works_.try_emplace({traits.remaps, group});
  if (first) at->second = worked_out(traits.remaps ? free_sharing_ : table_, group);
  return at->second;
}

BaselineBounds::GroupWorks BaselineBounds::worked_out(const StageTable& table,
                                                      std::int32_t group) const {
  const std::int32_t last = table.layout().stages() - 1;
  const auto on = [&](std::int32_t s, Pass pass) {
    return table.stage(StageId(s), pass, group) / fastest_[static_cast<std::size_t>(s)];
  };
  PackCost in, out;
  for (std::int32_t s = 0; s < last; ++s) {
    in = in + on(s, Pass::kForward);
    out = out + on(s, Pass::kBackward);
  }
  const PackCost first = on(0, Pass::kForward) + on(0, Pass::kBackward);
  const PackCost both = on(last, Pass::kForward) + on(last, Pass::kBackward);
  PackCost back = on(last, Pass::kBackward);
  const EdgeTime weights = table.weight_gradient(StageId(last));
  const double speed = fastest_.back();
  back.per_pack = std::max(0.0, back.per_pack - weights.per_pack / speed);
  back.per_token = std::max(0.0, back.per_token - weights.per_token / group / speed);
  const PackCost chained = on(0, Pass::kForward) + back;
  GroupWorks out_works{
      {}, {first.per_pack, both.per_pack, in.per_pack, out.per_pack, chained.per_pack}};
  out_works.sequences.reserve(lengths_.size());
  for (const Tokens length : lengths_) {
    const Slice whole{SequenceId(), Tokens(0), length};
    out_works.sequences.push_back(
        {first(whole), both(whole), in(whole), out(whole), chained(whole)});
  }
  return out_works;
}

BaselineBounds::Work BaselineBounds::pack_work(const GroupWorks& works,
                                               const std::vector<SequenceId>& pack) const {
  Work work = works.pack;
  for (const SequenceId id : pack) work += works.sequences[id.index()];
  return work;
}

/// The MicroPacks of a pack beyond one. Where each of them has 16 of the first sequence's tokens or
/// more, there is none less than asked for: no token weighs more than twice that sequence's mean.
double BaselineBounds::slices_more(const std::vector<SequenceId>& pack, std::int32_t slices) const {
  const std::int64_t tokens = lengths_[pack.front().index()].count();
  return static_cast<double>(std::clamp<std::int64_t>(tokens / 16, 1, slices) - 1);
}

/// Times are rounded to nanoseconds action by action, of which a pack has two on each stage; those
/// of a split backward are differences of two.
Nanos BaselineBounds::bound(double nanoseconds, std::size_t actions) const {
  constexpr double kFloatingPoint = 1e-12;
  const double rounding = 2.0 * static_cast<double>(actions * fastest_.size());
  return Nanos(static_cast<std::int64_t>(
             std::max(0.0, nanoseconds * (1 - kFloatingPoint) - rounding))) +
         rest_;
}

}  // namespace slimpack
