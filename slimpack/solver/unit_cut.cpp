#include "slimpack/solver/unit_cut.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "slimpack/base/error.h"
#include "slimpack/solver/paired_cut.h"

namespace slimpack {
namespace {

ReplicaShare share_of(const SequenceLengths& lengths, const Assignment& assignment, std::size_t r) {
  ReplicaShare share;
  share.replica = ReplicaId(r);
  share.sequences = assignment.own[r];
  std::vector<const MergedSequence*> merged;
  for (const MergedSequence& m : assignment.merged)
    if (r >= m.first.index() && r < m.first.index() + static_cast<std::size_t>(m.replicas)) {
      merged.push_back(&m);
      share.sequences.push_back(m.sequence);
    }
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
  return share;
}

/// By replica: the first of the unit that it belongs to.
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

PackPlan cut_share(const Unit& unit, const ReplicaShare& share, const UnitCost& cost, double budget,
                   const UnitCutOptions& options) {
  PackPlan packs;
  int left = options.fluid.packs;
  for (const Segment& segment : share.segments) {
    const bool alone = segment.replicas == 1;
    if (segment.sequences.empty()) continue;
    const bool first = packs.forward.empty();
    FluidCutOptions fluid = options.fluid;
    const auto share_of_packs =
        static_cast<int>(std::lround(work_of(share, segment, cost) / budget));
    fluid.packs = std::max(1, alone ? left : share_of_packs);
    left -= fluid.packs;
    if (!first) fluid.taper_front = 0;
    if (!is_last(unit, share, segment)) fluid.taper_back = 0;
    const std::size_t k = entry(segment.replicas);
    const std::vector<SequenceId> order =
        fluid_order(share.lengths, segment.sequences, first ? options.short_first : 0);
    append(packs,
           options.paired
               ? paired_cut(share.lengths, order, cost.forward[k] + cost.backward[k], fluid.packs,
                            fluid.granularity)
               : fluid_cut(share.lengths, order, cost.forward[k], cost.backward[k], fluid),
           segment.replicas);
  }
  return packs;
}

}  // namespace

std::vector<Unit> units_of(const SequenceLengths& lengths, const Assignment& assignment) {
  const std::vector<std::size_t> first = first_of_units(assignment);
  std::vector<Unit> units;
  for (std::size_t r = 0; r < first.size(); ++r) {
    if (first[r] == r) units.emplace_back();
    units.back().replicas.push_back(share_of(lengths, assignment, r));
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
    double work = 0;
    for (const Segment& segment : share.segments) work += work_of(share, segment, cost);
    most = std::max(most, work);
  }
  UnitCutOptions used = options;
  if (unit.replicas.size() > 1) used.short_first = 0;
  std::vector<PackPlan> packs;
  for (const ReplicaShare& share : unit.replicas)
    packs.push_back(cut_share(unit, share, cost, most / options.fluid.packs, used));
  return packs;
}

}  // namespace slimpack
