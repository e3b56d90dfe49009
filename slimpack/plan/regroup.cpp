#include "slimpack/plan/regroup.h"

#include <algorithm>
#include <map>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

struct ForwardRows {
  Slice slice;
  PackId pack;
  Tokens first_row;
};

/// Forward slices of every sequence, ascending because forward packs run in ascending order.
std::map<SequenceId, std::vector<ForwardRows>> rows_by_sequence(const PackPlan& packs) {
  std::map<SequenceId, std::vector<ForwardRows>> rows;
  for (std::size_t p = 0; p < packs.forward.size(); ++p) {
    Tokens row{0};
    for (const Slice& slice : packs.forward[p].slices) {
      rows[slice.sequence].push_back({slice, PackId(p), row});
      row += slice.length();
    }
  }
  return rows;
}

void append(std::vector<RowSegment>& segments, const RowSegment& next) {
  if (!segments.empty() && segments.back().forward == next.forward &&
      segments.back().begin + segments.back().rows == next.begin) {
    segments.back().rows += next.rows;
  } else {
    segments.push_back(next);
  }
}

}  // namespace

std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs) {
  const auto rows = rows_by_sequence(packs);
  std::vector<std::vector<RowSegment>> result(packs.backward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    for (const Slice& slice : packs.backward[p].slices) {
      const auto& forward = rows.at(slice.sequence);
      auto it = std::upper_bound(forward.begin(), forward.end(), slice.begin,
                                 [](Tokens t, const ForwardRows& r) { return t < r.slice.end; });
      for (Tokens at = slice.begin; at < slice.end; ++it) {
        SLIMPACK_CHECK(it != forward.end() && it->slice.begin <= at);
        const Tokens end = std::min(slice.end, it->slice.end);
        append(result[p], {it->pack, it->first_row + (at - it->slice.begin), end - at});
        at = end;
      }
    }
  }
  return result;
}

}  // namespace slimpack
