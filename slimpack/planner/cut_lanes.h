// Cut lanes: the packs of a unit as places of cuts, which can be moved, dropped and added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// MicroPacks of one pass that one replica, or one group of a unit, runs one after the other. Its
/// sequences stand side by side, forward from their heads, backward from their tails; a place is a
/// number of tokens from there.
struct CutLane {
  std::size_t first = 0;      ///< the group's first replica, counted in the unit
  std::int32_t replicas = 1;  ///< of the group
  Pass pass = Pass::kForward;
  std::vector<SequenceId> order = {};   ///< ids of the step
  std::vector<std::int64_t> begins;     ///< the place of each sequence; last the end of the lane
  std::vector<std::int64_t> cuts = {};  ///< ascending places between MicroPacks

  /// The place of the c-th cut, where 0 is the lane's begin and the one after the last its end.
  [[nodiscard]] std::int64_t edge(std::size_t c) const;
  /// The nearest place where a cut may lie: between two sequences, or at a multiple of the
  /// granularity with so many tokens or more on either side.
  [[nodiscard]] std::int64_t allowed(std::int64_t place, Tokens granularity) const;
};

/// One change of a lane. Shares are of the way from one cut to its neighbour.
struct CutMove {
  enum class Kind : std::uint8_t {
    kShift,  ///< moves cut `at` a share of the way to the next one; < 0: to the one before
    kDrop,   ///< removes it
    kAdd,    ///< cuts MicroPack `at` after this share of its tokens
  };

  Kind kind = Kind::kShift;
  std::size_t at = 0;
  double share = 0;

  /// Changes the lane; false: the lane has no such cut, or nothing would change.
  [[nodiscard]] bool apply(CutLane& lane, Tokens granularity) const;
};

/// The lanes of a unit. nullopt where a sequence's slices do not follow each other.
/// `packs`: by replica, as cut_unit makes them. Cost: O(slices).
[[nodiscard]] std::optional<std::vector<CutLane>> cut_lanes(const Unit& unit,
                                                            const std::vector<PackPlan>& packs);

/// The packs that the lanes stand for, by replica of the unit. Cost: O(slices · log sequences).
[[nodiscard]] std::vector<PackPlan> packs_of(const Unit& unit, const std::vector<CutLane>& lanes);

}  // namespace slimpack
