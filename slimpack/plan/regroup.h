// Regrouping finds the rows of forward MicroPacks that make up each backward MicroPack, and the
// backward MicroPacks that hold the slices of a forward one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// Rows [begin, begin + rows) of forward MicroPack `forward`.
struct RowSegment {
  PackId forward;
  Tokens begin;
  Tokens rows;

  bool operator==(const RowSegment&) const = default;
};

/// By backward MicroPack: the segments that form its rows, in its own slice order, for one who
/// holds all rows. Adjacent segments of one forward MicroPack are joined, so rows of a single
/// segment can be used in place. REQUIRES: check_plan is empty for these packs.
/// Cost: O(slices log slices).
[[nodiscard]] std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs);

/// regroup for one holder, which has the rows that `share_of` says: of a slice of the MicroPack, by
/// its place (row_share.h). A MicroPack of whose slices it holds no row has no segments.
using ShareOfPack = std::function<RowShare(const MicroPack& pack, std::size_t slice)>;
[[nodiscard]] std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs,
                                                           const ShareOfPack& share_of);

/// By backward MicroPack the forward one with the same slices, in whatever order; nothing where
/// there is none. REQUIRES: valid packs. Cost: O(slices · log slices).
[[nodiscard]] std::vector<std::optional<PackId>> forward_pairs(const PackPlan& packs);

/// Whether every backward MicroPack holds the slices of a forward one.
[[nodiscard]] bool all_paired(const PackPlan& packs);

}  // namespace slimpack
