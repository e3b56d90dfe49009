#include "slimpack/planner/cut_lanes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace slimpack {
namespace {

/// Tokens of the sequence before the slice, on the walk of its pass.
std::int64_t walked_before(const Slice& slice, Tokens length, Pass pass) {
  return (pass == Pass::kForward ? slice.begin : length - slice.end).count();
}

/// Adds a slice at the lane's end; false: it is not what comes next there.
bool append(CutLane& lane, SequenceId sequence, const Slice& slice, Tokens length) {
  const std::int64_t before = walked_before(slice, length, lane.pass);
  const std::int64_t end = lane.begins.back();
  if (before == 0) {
    if (std::ranges::find(lane.order, sequence) != lane.order.end()) return false;
    lane.order.push_back(sequence);
    lane.begins.push_back(end);
  } else if (lane.order.empty() || lane.order.back() != sequence ||
             end - lane.begins[lane.order.size() - 1] != before) {
    return false;
  }
  lane.begins.back() += slice.length().count();
  return true;
}

/// The lane of packs [from, to) of a replica.
std::optional<CutLane> lane_of(const ReplicaShare& share, std::span<const MicroPack> packs,
                               Pass pass) {
  CutLane lane{.replicas = packs.front().replicas, .pass = pass, .begins = {0}};
  for (const MicroPack& pack : packs) {
    if (lane.begins.back() > 0) lane.cuts.push_back(lane.begins.back());
    for (const Slice& slice : pack.slices) {
      const std::size_t own = slice.sequence.index();
      if (!append(lane, share.sequences[own], slice, share.lengths[own])) return std::nullopt;
    }
  }
  return lane;
}

/// The lane's MicroPacks in the ids of a replica.
void append_packs(const CutLane& lane, const ReplicaShare& share, std::vector<MicroPack>& packs) {
  std::size_t place = 0;
  for (std::size_t c = 0; c <= lane.cuts.size(); ++c) {
    const std::int64_t from = lane.edge(c), to = lane.edge(c + 1);
    MicroPack& pack = packs.emplace_back();
    pack.replicas = lane.replicas;
    while (lane.begins[place + 1] <= from) ++place;
    for (std::size_t i = place; i < lane.order.size() && lane.begins[i] < to; ++i) {
      const std::int64_t begin = lane.begins[i], end = lane.begins[i + 1];
      const std::int64_t a = std::max(from, begin), b = std::min(to, end);
      const auto found = std::ranges::lower_bound(share.sequences, lane.order[i]);
      const SequenceId own(static_cast<std::size_t>(found - share.sequences.begin()));
      pack.slices.push_back(lane.pass == Pass::kForward
                                ? Slice{own, Tokens(a - begin), Tokens(b - begin)}
                                : Slice{own, Tokens(end - b), Tokens(end - a)});
    }
  }
}

}  // namespace

std::int64_t CutLane::edge(std::size_t c) const {
  if (c == 0) return 0;
  return c <= cuts.size() ? cuts[c - 1] : begins.back();
}

std::int64_t CutLane::allowed(std::int64_t place, Tokens granularity) const {
  const auto next = std::ranges::upper_bound(begins, place);
  if (next == begins.begin() || next == begins.end()) return place <= 0 ? 0 : begins.back();
  const std::int64_t begin = *std::prev(next), end = *next, granule = granularity.count();
  const std::int64_t tokens = pass == Pass::kForward ? place - begin : end - place;
  const std::int64_t cut = (tokens + granule / 2) / granule * granule;
  if (cut < granule || end - begin - cut < granule)
    return place - begin < end - place ? begin : end;
  return pass == Pass::kForward ? begin + cut : end - cut;
}

bool CutMove::apply(CutLane& lane, Tokens granularity) const {
  const std::size_t needed = kind == Kind::kAdd ? at : at + 1;
  if (lane.cuts.size() < needed) return false;
  const auto here = lane.cuts.begin() + static_cast<std::ptrdiff_t>(at);
  if (kind == Kind::kDrop) {
    lane.cuts.erase(here);
    return true;
  }
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const auto way = static_cast<double>(to - from);
    return lane.allowed(from + std::llround(std::abs(share) * way), granularity);
  };
  const std::int64_t low = lane.edge(at);
  const std::int64_t high = lane.edge(kind == Kind::kAdd ? at + 1 : at + 2);
  const std::int64_t cut =
      kind == Kind::kAdd ? part(low, high) : part(*here, share < 0 ? low : high);
  if (cut <= low || cut >= high) return false;
  if (kind == Kind::kAdd)
    lane.cuts.insert(here, cut);
  else if (std::exchange(*here, cut) == cut)
    return false;
  return true;
}

std::optional<std::vector<CutLane>> cut_lanes(const Unit& unit,
                                              const std::vector<PackPlan>& packs) {
  std::vector<CutLane> lanes;
  for (std::size_t i = 0; i < packs.size(); ++i)
    for (const Pass pass : kWholePasses) {
      const std::vector<MicroPack>& all = packs[i].of(pass);
      for (auto from = all.begin(), to = from; from != all.end(); from = to) {
        to = std::find_if(from, all.end(),
                          [&](const MicroPack& pack) { return pack.replicas != from->replicas; });
        if (unit.replicas[i].replica.value() % from->replicas != 0) continue;
        auto lane = lane_of(unit.replicas[i], {from, to}, pass);
        if (!lane) return std::nullopt;
        lane->first = i;
        lanes.push_back(*std::move(lane));
      }
    }
  return lanes;
}

std::vector<PackPlan> packs_of(const Unit& unit, const std::vector<CutLane>& lanes) {
  std::vector<const CutLane*> largest_first;
  for (const CutLane& lane : lanes) largest_first.push_back(&lane);
  std::ranges::stable_sort(largest_first, std::greater<>(), &CutLane::replicas);
  std::vector<PackPlan> packs(unit.replicas.size());
  for (const CutLane* lane : largest_first)
    for (std::size_t i = 0; i < static_cast<std::size_t>(lane->replicas); ++i)
      append_packs(*lane, unit.replicas[lane->first + i], packs[lane->first + i].of(lane->pass));
  return packs;
}

}  // namespace slimpack
