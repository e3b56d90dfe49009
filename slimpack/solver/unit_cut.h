// Unit: replicas that share merged sequences, directly or through one another, are cut together.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/fluid_cut.h"

namespace slimpack {

/// Sequences of a replica that run on groups of one size, in SequenceIds of the replica's own.
struct Segment {
  std::int32_t replicas = 1;
  std::vector<SequenceId> sequences;

  bool operator==(const Segment&) const = default;
};

/// One replica's part of a step, in SequenceIds of its own, so that work on a replica does not grow
/// with the sequences of others.
struct ReplicaShare {
  ReplicaId replica;
  std::vector<SequenceId> sequences;  ///< the step's id of each own id, ascending
  SequenceLengths lengths;            ///< by own id
  std::vector<Segment> segments;      ///< largest groups first; the last is what it runs alone,
                                      ///< longest first

  bool operator==(const ReplicaShare&) const = default;
};

/// A single replica, or the replicas of a group.
struct Unit {
  std::vector<ReplicaShare> replicas;
  double load = 0;  ///< the highest Assignment::load of its replicas
};

/// The heaviest first.
[[nodiscard]] std::vector<Unit> units_of(const SequenceLengths& lengths,
                                         const Assignment& assignment);

/// The costs of a pass for groups of 2^k replicas, on the stage that paces the unit.
struct UnitCost {
  std::vector<PackCost> forward;
  std::vector<PackCost> backward;

  [[nodiscard]] const std::vector<PackCost>& of(Pass pass) const {
    return pass == Pass::kForward ? forward : backward;
  }
};

struct UnitCutOptions {
  FluidCutOptions fluid;
  int short_first = 0;  ///< shortest sequences ahead of the longest, where nothing is merged
  bool paired = false;  ///< backward runs forward's MicroPacks: paired_cut in place of fluid_cut

  bool operator==(const UnitCutOptions&) const = default;
};

/// By replica of the unit: its packs, in ids of its own. Merged sequences come first, those of the
/// largest groups at the front, so a merged pack has the same index on all its replicas. A group
/// gets that share of the fluid.packs MicroPacks which it has of the most loaded replica's work.
/// Cost: that of fluid_cut for each segment of a group.
[[nodiscard]] std::vector<PackPlan> cut_unit(const Unit& unit, const UnitCost& cost,
                                             const UnitCutOptions& options);

}  // namespace slimpack
