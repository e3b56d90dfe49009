#include "slimpack/solver/unit_cut.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/solver/paired_cut.h"

namespace slimpack {
namespace {

/// The merged sequences of each replica, in their order.
std::vector<std::vector<const MergedSequence*>> merged_by_replica(const Assignment& assignment) {
  std::vector<std::vector<const MergedSequence*>> merged(assignment.own.size());
  for (const MergedSequence& m : assignment.merged)
    for (std::size_t i = 0; i < static_cast<std::size_t>(m.replicas); ++i)
      merged[m.first.index() + i].push_back(&m);
  return merged;
}

ReplicaShare share_of(const SequenceLengths& lengths, const Assignment& assignment, std::size_t r,
                      const std::vector<const MergedSequence*>& merged) {
  ReplicaShare share;
  share.replica = ReplicaId(r);
  share.sequences = assignment.own[r];
  for (const MergedSequence* m : merged) share.sequences.push_back(m->sequence);
  std::sort(share.sequences.begin(), share.sequences.end());
  const auto own_id = [&](SequenceId q) {
    const auto at = std::lower_bound(share.sequences.begin(), share.sequences.end(), q);
    return SequenceId(static_cast<std::size_t>(at - share.sequences.begin()));
  };
  for (const SequenceId q : share.sequences) share.lengths.push_back(lengths[q.index()]);
  for (const MergedSequence* m : merged) {
    if (share.segments.empty() || share.segments.back().replicas != m->replicas)
      share.segments.push_back({m->replicas, {}});
    share.segments.back().sequences.push_back(own_id(m->sequence));
  }
  Segment& alone = share.segments.emplace_back();
  for (const SequenceId q : assignment.own[r]) alone.sequences.push_back(own_id(q));
  sort_longest_first(share.lengths, alone.sequences);  // once, for all cuts
  return share;
}

/// The first replica of the unit that each replica belongs to.
std::vector<std::size_t> first_of_units(const Assignment& assignment) {
  std::vector<std::size_t> first(assignment.own.size());
  for (std::size_t r = 0; r < first.size(); ++r) first[r] = r;
  // Groups are nested, so the largest that holds a replica is its unit.
  for (const MergedSequence& m : assignment.merged)
    for (std::size_t i = 0; i < static_cast<std::size_t>(m.replicas); ++i)
      first[m.first.index() + i] = std::min(first[m.first.index() + i], m.first.index());
  return first;
}

std::size_t entry(std::int32_t replicas) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(replicas)));
}

double work_of(const ReplicaShare& share, const Segment& segment, const UnitCost& cost) {
  const std::size_t k = entry(segment.replicas);
  double work = 0;
  for (const SequenceId q : segment.sequences) {
    const Slice whole{q, Tokens(0), share.lengths[q.index()]};
    work += cost.forward[k](whole) + cost.backward[k](whole);
  }
  return work;
}

void append(PackPlan& packs, PackPlan more, std::int32_t replicas) {
  for (auto* pass : {&more.forward, &more.backward})
    for (MicroPack& pack : *pass) pack.replicas = replicas;
  std::move(more.forward.begin(), more.forward.end(), std::back_inserter(packs.forward));
  std::move(more.backward.begin(), more.backward.end(), std::back_inserter(packs.backward));
}

/// Whether no replica of the segment's group runs anything after it: they must all cut it alike.
bool is_last(const Unit& unit, const ReplicaShare& share, const Segment& segment) {
  const auto group = [&](const ReplicaShare& of) { return of.replica.value() / segment.replicas; };
  return std::none_of(unit.replicas.begin(), unit.replicas.end(), [&](const ReplicaShare& other) {
    return group(other) == group(share) &&
           std::any_of(other.segments.begin(), other.segments.end(), [&](const Segment& s) {
             return s.replicas < segment.replicas && !s.sequences.empty();
           });
  });
}

/// Cuts the replicas of a unit one after the other.
class UnitCutter {
 public:
  UnitCutter(const Unit& unit, const UnitCost& cost, double budget, const UnitCutOptions& options)
      : unit_(unit), cost_(cost), budget_(budget), options_(options) {}

  PackPlan cut(const ReplicaShare& share) {
    PackPlan packs;
    int left = options_.fluid.packs;
    for (const Segment& segment : share.segments) {
      if (segment.sequences.empty()) continue;
      UnitCutOptions options = options_;
      const std::int64_t packs_of_segment =
          segment.replicas == 1 ? left : std::llround(work_of(share, segment, cost_) / budget_);
      options.fluid.packs = static_cast<int>(std::max<std::int64_t>(1, packs_of_segment));
      left -= options.fluid.packs;
      if (!packs.forward.empty()) options.fluid.taper_front = options.short_first = 0;
      if (!is_last(unit_, share, segment)) options.fluid.taper_back = 0;
      append(packs,
             segment.replicas == 1 ? cut_sequences(share.lengths, segment.sequences, 1, options)
                                   : common_cut(share, segment, options),
             segment.replicas);
    }
    return packs;
  }

 private:
  [[nodiscard]] PackPlan cut_sequences(const SequenceLengths& lengths,
                                       const std::vector<SequenceId>& sequences,
                                       std::int32_t replicas, const UnitCutOptions& options) const {
    const std::size_t k = entry(replicas);
    const PackCost& forward = cost_.forward[k];
    const PackCost& backward = cost_.backward[k];
    const auto order = fluid_order(lengths, sequences, options.short_first);
    if (options.paired)
      return paired_cut(lengths, order, forward + backward, options.fluid.packs,
                        options.fluid.granularity);
    return fluid_cut(lengths, order, forward, backward, options.fluid);
  }

  /// The replicas of a group cut what they share alike, so it is cut once.
  PackPlan common_cut(const ReplicaShare& share, const Segment& segment,
                      const UnitCutOptions& options) {
    const auto group = std::pair(share.replica.value() / segment.replicas, segment.replicas);
    const auto [at, first] = cuts_.try_emplace(group);
    if (first) {
      SequenceLengths lengths;
      for (const SequenceId q : segment.sequences) lengths.push_back(share.lengths[q.index()]);
      at->second = cut_sequences(lengths, all_sequences(lengths), segment.replicas, options);
    }
    PackPlan packs = at->second;
    for (auto* pass : {&packs.forward, &packs.backward})
      for (MicroPack& pack : *pass)
        for (Slice& slice : pack.slices) slice.sequence = segment.sequences[slice.sequence.index()];
    return packs;
  }

  const Unit& unit_;
  const UnitCost& cost_;
  double budget_;
  const UnitCutOptions& options_;
  /// The packs of a group, by the group and its size, in places of the segment's sequences.
  std::map<std::pair<std::int32_t, std::int32_t>, PackPlan> cuts_;
};

}  // namespace

std::vector<Unit> units_of(const SequenceLengths& lengths, const Assignment& assignment) {
  const std::vector<std::size_t> first = first_of_units(assignment);
  const auto merged = merged_by_replica(assignment);
  std::vector<Unit> units;
  for (std::size_t r = 0; r < first.size(); ++r) {
    if (first[r] == r) units.emplace_back();
    units.back().replicas.push_back(share_of(lengths, assignment, r, merged[r]));
    units.back().load = std::max(units.back().load, assignment.load[r]);
  }
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.load > b.load; });
  return units;
}

std::vector<PackPlan> cut_unit(const Unit& unit, const UnitCost& cost,
                               const UnitCutOptions& options) {
  double most = 0;
  for (const ReplicaShare& share : unit.replicas) {
    if (share.segments.size() == 1) continue;  // where nothing is merged, nobody asks
    double work = 0;
    for (const Segment& segment : share.segments) work += work_of(share, segment, cost);
    most = std::max(most, work);
  }
  UnitCutOptions used = options;
  if (unit.replicas.size() > 1) used.short_first = 0;
  UnitCutter cutter(unit, cost, most / options.fluid.packs, used);
  std::vector<PackPlan> packs;
  packs.reserve(unit.replicas.size());
  for (const ReplicaShare& share : unit.replicas) packs.push_back(cutter.cut(share));
  return packs;
}

}  // namespace slimpack
