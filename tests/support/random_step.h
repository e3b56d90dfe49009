// Random valid steps of several replicas with merged MicroPacks, and orders in which all of them
// come to an end.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"
#include "tests/support/random_plan.h"

namespace slimpack::testing {

/// Where the merged packs of a group stand among the packs that a replica runs with others or
/// alone.
enum class MergedAt : std::uint8_t {
  kAnywhere,   ///< only their order among themselves is the same on all replicas
  kSameIndex,  ///< in front, larger groups first, as ListScheduler requires
};

/// Who shares the slices of a merged pack.
enum class Zoning : std::uint8_t {
  kWhole,     ///< its group, of 2 or 4 replicas
  kZones,     ///< neighbours in its group, which may have any size
  kRemapped,  ///< likewise, and other neighbours hold its rows outside of attention
};

/// Replicas that run a sequence: their number and the first of them.
using StepGroup = std::pair<std::size_t, std::size_t>;

/// One pass of one group: packs with the places at which they stand in every member's list.
struct PlacedPacks {
  StepGroup group;
  std::vector<std::pair<std::uint64_t, MicroPack>> packs;
};

inline std::vector<PlacedPacks> random_pass(
    Rng& rng, const StepPlan& plan, const std::map<StepGroup, std::vector<SequenceId>>& members,
    Pass pass, MergedAt merged_at) {
  std::vector<PlacedPacks> out;
  for (const auto& [group, sequences] : members) {
    SequenceLengths lengths;
    for (const SequenceId q : sequences) lengths.push_back(plan.lengths[q.index()]);
    std::vector<MicroPack> packs = random_packs(rng, lengths, 1 + rng.below(6), pass);
    std::vector<std::uint64_t> places(packs.size());
    for (std::uint64_t& place : places)
      place = merged_at == MergedAt::kAnywhere ? rng.next() : 100 / group.first;
    std::sort(places.begin(), places.end());
    PlacedPacks& placed = out.emplace_back();
    placed.group = group;
    for (std::size_t p = 0; p < packs.size(); ++p) {
      for (Slice& slice : packs[p].slices) slice.sequence = sequences[slice.sequence.index()];
      packs[p].replicas = static_cast<std::int32_t>(group.first);
      placed.packs.emplace_back(places[p], std::move(packs[p]));
    }
  }
  return out;
}

inline std::vector<MicroPack> packs_of_replica(const std::vector<PlacedPacks>& pass,
                                               std::size_t replica) {
  std::vector<std::pair<std::uint64_t, MicroPack>> own;
  for (const PlacedPacks& placed : pass)
    if (replica / placed.group.first == placed.group.second / placed.group.first)
      own.insert(own.end(), placed.packs.begin(), placed.packs.end());
  std::stable_sort(own.begin(), own.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<MicroPack> packs;
  for (auto& [place, pack] : own) packs.push_back(std::move(pack));
  return packs;
}

/// The number of replicas that run a sequence together.
inline std::size_t random_group(Rng& rng, std::size_t replicas, Zoning zoning) {
  // Groups of other sizes than 2 and 4 do not nest with these.
  if (zoning != Zoning::kWhole) return rng.below(2) == 0 ? 1 : replicas;
  std::size_t count = std::size_t{1} << rng.below(3);
  while (count > replicas) count /= 2;
  return count;
}

/// Gives the slices of each sequence a zone, and sorts them by it; with `row_zones` these, too.
inline void add_zones(MicroPack& pack, const std::vector<Zone>& zones,
                      const std::vector<Zone>& row_zones) {
  if (pack.replicas == 1) return;
  const auto zone = [&](const Slice& slice) { return zones[slice.sequence.index()]; };
  std::ranges::stable_sort(pack.slices, std::ranges::greater(), zone);
  for (const Slice& slice : pack.slices) {
    pack.zones.push_back(zone(slice));
    if (!row_zones.empty()) pack.row_zones.push_back(row_zones[slice.sequence.index()]);
  }
}

inline std::vector<Zone> random_zones(Rng& rng, const StepPlan& plan) {
  std::vector<Zone> zones(plan.lengths.size());
  const auto members = static_cast<std::int32_t>(plan.replicas.size());
  for (Zone& zone : zones) {
    zone.first = static_cast<std::int32_t>(rng.below(plan.replicas.size()));
    zone.size =
        1 + static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(members - zone.first)));
  }
  return zones;
}

/// Gives every sequence a random zone of its group, or one for attention and one for its rows.
inline void add_zones(Rng& rng, StepPlan& plan, Zoning zoning) {
  const std::vector<Zone> zones = random_zones(rng, plan);
  std::vector<Zone> row_zones;
  if (zoning == Zoning::kRemapped) row_zones = random_zones(rng, plan);
  for (ReplicaPlan& replica : plan.replicas)
    for (const Pass pass : kWholePasses)
      for (MicroPack& pack : replica.packs.of(pass)) add_zones(pack, zones, row_zones);
}

/// Sequences of these lengths, each on a random group of so many replicas, some of which may stay
/// without work.
inline StepPlan random_step(Rng& rng, const SequenceLengths& lengths, std::size_t replicas,
                            int stages, MergedAt merged_at, Zoning zoning = Zoning::kWhole) {
  StepPlan plan;
  for (int s = 0; s <= stages; ++s) plan.layout.layer_begin.push_back(2 * s);
  plan.replicas.resize(replicas);
  plan.lengths = lengths;
  std::map<StepGroup, std::vector<SequenceId>> members;
  for (std::size_t q = 0; q < plan.lengths.size(); ++q) {
    const std::size_t count = random_group(rng, plan.replicas.size(), zoning);
    const std::size_t first = count * rng.below(plan.replicas.size() / count);
    members[{count, first}].emplace_back(q);
    for (std::size_t r = first; r < first + count; ++r) plan.replicas[r].sequences.emplace_back(q);
  }
  const auto forward = random_pass(rng, plan, members, Pass::kForward, merged_at);
  const auto backward = random_pass(rng, plan, members, Pass::kBackward, merged_at);
  for (std::size_t r = 0; r < plan.replicas.size(); ++r)
    plan.replicas[r].packs = {packs_of_replica(forward, r), packs_of_replica(backward, r)};
  if (zoning != Zoning::kWhole) add_zones(rng, plan, zoning);
  return plan;
}

/// The stages of each pair of rounds in a V: the second round goes back over the ranks.
inline StagePlacement vee_placement(std::int32_t ranks, std::int32_t stages_per_rank) {
  std::vector<std::int32_t> rank_of_stage;
  for (std::int32_t round = 0; round < stages_per_rank; ++round)
    for (std::int32_t r = 0; r < ranks; ++r)
      rank_of_stage.push_back(round % 2 == 0 ? r : ranks - 1 - r);
  return StagePlacement(std::move(rank_of_stage));
}

/// Up to five replicas and up to eight sequences of up to 40 tokens.
inline StepPlan random_step(Rng& rng, int stages, MergedAt merged_at,
                            Zoning zoning = Zoning::kWhole) {
  const std::size_t replicas = 1 + rng.below(5);
  SequenceLengths lengths(1 + rng.below(8));
  for (Tokens& length : lengths) length = Tokens(1 + static_cast<std::int64_t>(rng.below(40)));
  return random_step(rng, lengths, replicas, stages, merged_at, zoning);
}

/// Plays a step without a clock: whatever can start and is sure of a slot may be next, drawn at
/// random. Merged packs start on all their replicas at once, so the orders come to an end.
class RandomOrders {
 public:
  RandomOrders(Rng& rng, const StepPlan& plan, int slots)
      : rng_(rng),
        plan_(plan),
        stages_(static_cast<std::size_t>(plan.layout.stages())),
        slots_(static_cast<std::size_t>(slots)) {
    for (const ReplicaPlan& replica : plan.replicas) {
      needed_.push_back(forwards_needed(replica.packs));
      started_.emplace_back(stages_);
      Schedule& schedule = schedules_.emplace_back();
      schedule.ranks.resize(static_cast<std::size_t>(plan.layout.ranks()));
      schedule.placement = plan.layout.placement;
    }
  }

  std::vector<Schedule> draw() {
    for (;;) {
      std::vector<std::pair<std::size_t, Action>> startable;
      for (std::size_t r = 0; r < plan_.replicas.size(); ++r)
        for (std::size_t s = 0; s < stages_; ++s)
          for (const Pass pass : {Pass::kForward, Pass::kBackward})
            if (together(r, s, pass)) startable.emplace_back(r, next(r, s, pass));
      if (startable.empty()) return schedules_;
      const auto& [r, action] = startable[rng_.below(startable.size())];
      start(r, action);
    }
  }

 private:
  using Started = std::array<std::size_t, 2>;  ///< by pass

  [[nodiscard]] const std::vector<MicroPack>& packs(std::size_t r, Pass pass) const {
    const PackPlan& own = plan_.replicas[r].packs;
    return pass == Pass::kForward ? own.forward : own.backward;
  }
  [[nodiscard]] std::size_t rank_of(std::size_t s) const {
    return static_cast<std::size_t>(plan_.layout.placement.rank_of(StageId(s)));
  }
  [[nodiscard]] std::size_t started(std::size_t r, std::size_t s, Pass pass) const {
    return started_[r][s][static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] Action next(std::size_t r, std::size_t s, Pass pass) const {
    return {StageId(s), pass, PackId(started(r, s, pass))};
  }

  [[nodiscard]] bool alone(std::size_t r, std::size_t s, Pass pass) const {
    const std::size_t p = started(r, s, pass);
    if (p == packs(r, pass).size()) return false;
    const bool forward = pass == Pass::kForward;
    if (!forward && started(r, s, Pass::kForward) < static_cast<std::size_t>(needed_[r][p]))
      return false;
    const bool has_source = forward ? s > 0 : s + 1 < stages_;
    if (has_source && started(r, forward ? s - 1 : s + 1, pass) <= p) return false;
    const bool has_target = forward ? s + 1 < stages_ : s > 0;
    const std::size_t target = forward ? s + 1 : s - 1;
    // Between stages of one rank nothing is sent.
    return !has_target || rank_of(s) == rank_of(target) || p < started(r, target, pass) + slots_;
  }

  [[nodiscard]] bool together(std::size_t r, std::size_t s, Pass pass) const {
    if (!alone(r, s, pass)) return false;
    const MicroPack& pack = packs(r, pass)[started(r, s, pass)];
    const auto count = static_cast<std::size_t>(pack.replicas);
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m)
      if (!alone(m, s, pass) || packs(m, pass)[started(m, s, pass)] != pack) return false;
    return true;
  }

  void start(std::size_t r, const Action& action) {
    const auto count =
        static_cast<std::size_t>(packs(r, action.pass)[action.pack.index()].replicas);
    const std::size_t s = action.stage.index();
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
      std::vector<std::vector<Action>>& ranks = schedules_[m].ranks;
      ranks[rank_of(s)].push_back(next(m, s, action.pass));
      ++started_[m][s][static_cast<std::size_t>(action.pass)];
    }
  }

  Rng& rng_;
  const StepPlan& plan_;
  std::size_t stages_;
  std::size_t slots_;
  std::vector<std::vector<std::int32_t>> needed_;
  std::vector<std::vector<Started>> started_;  ///< [replica][stage]
  std::vector<Schedule> schedules_;
};

/// Random costs of every replica of a step.
inline std::vector<TaskTimes> random_step_times(Rng& rng, const StepPlan& plan) {
  std::vector<TaskTimes> times;
  for (const ReplicaPlan& replica : plan.replicas) {
    times.push_back(random_times(rng, replica.packs, plan.layout.stages()));
    for (auto* by_rank : {&times.back().reduce, &times.back().step_end})
      by_rank->resize(static_cast<std::size_t>(plan.layout.ranks()));
  }
  return times;
}
inline std::vector<TaskBytes> random_step_bytes(Rng& rng, const StepPlan& plan) {
  std::vector<TaskBytes> bytes;
  for (const ReplicaPlan& replica : plan.replicas)
    bytes.push_back(random_bytes(rng, replica.packs, plan.lengths.size(), plan.layout.stages()));
  return bytes;
}

}  // namespace slimpack::testing
