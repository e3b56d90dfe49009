// Regrouping: which rows of which forward MicroPacks make up each backward MicroPack.
#pragma once

#include <functional>
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

/// By backward MicroPack: the segments that, laid end to end, are its rows in its own slice order.
/// Adjacent segments of one forward MicroPack are merged, so a single segment means that the rows
/// can be used in place. REQUIRES: check_plan is empty for these packs. Cost: O(slices log slices).
[[nodiscard]] std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs);

/// The same in the rows that somebody holds (row_share.h): none for a MicroPack in whose slices he
/// has no row.
using ShareOfPack = std::function<RowShare(const MicroPack& pack)>;
[[nodiscard]] std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs,
                                                           const ShareOfPack& share_of);

}  // namespace slimpack
