#include "slimpack/plan/regroup.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

struct ForwardRows {
  Slice slice;
  PackId pack;
  RowShare share;
  Tokens first_row;
};

/// Forward slices of every sequence, ascending because forward packs run in ascending order. The
/// slices of sequence q are rows[begin[q], begin[q + 1]).
struct RowsBySequence {
  std::vector<std::size_t> begin;
  std::vector<ForwardRows> rows;

  template <class ShareOf>
  RowsBySequence(const PackPlan& packs, const ShareOf& share_of) {
    std::size_t sequences = 0;
    for (const MicroPack& pack : packs.forward)
      for (const Slice& slice : pack.slices)
        sequences = std::max(sequences, slice.sequence.index() + 1);
    begin.assign(sequences + 1, 0);
    for (const MicroPack& pack : packs.forward)
      for (const Slice& slice : pack.slices) ++begin[slice.sequence.index() + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    rows.resize(begin.back());
    std::vector<std::size_t> next = begin;
    for (std::size_t p = 0; p < packs.forward.size(); ++p) {
      Tokens row{0};
      for (std::size_t s = 0; s < packs.forward[p].slices.size(); ++s) {
        const Slice& slice = packs.forward[p].slices[s];
        const RowShare share = share_of(packs.forward[p], s);
        rows[next[slice.sequence.index()]++] = {slice, PackId(p), share, row};
        row += share.rows(slice);
      }
    }
  }

  [[nodiscard]] std::span<const ForwardRows> of(SequenceId sequence) const {
    SLIMPACK_CHECK(sequence.index() + 1 < begin.size());
    return std::span(rows).subspan(begin[sequence.index()],
                                   begin[sequence.index() + 1] - begin[sequence.index()]);
  }
};

void append(std::vector<RowSegment>& segments, const RowSegment& next) {
  if (next.rows == Tokens(0)) return;
  if (!segments.empty() && segments.back().forward == next.forward &&
      segments.back().begin + segments.back().rows == next.begin) {
    segments.back().rows += next.rows;
  } else {
    segments.push_back(next);
  }
}

template <class ShareOf>
std::vector<std::vector<RowSegment>> regrouped(const PackPlan& packs, const ShareOf& share_of) {
  const RowsBySequence rows(packs, share_of);
  std::vector<std::vector<RowSegment>> result(packs.backward.size());
  for (std::size_t p = 0; p < packs.backward.size(); ++p) {
    for (const Slice& slice : packs.backward[p].slices) {
      const std::span<const ForwardRows> forward = rows.of(slice.sequence);
      auto it = std::upper_bound(forward.begin(), forward.end(), slice.begin,
                                 [](Tokens t, const ForwardRows& r) { return t < r.slice.end; });
      for (Tokens at = slice.begin; at < slice.end; ++it) {
        SLIMPACK_CHECK(it != forward.end() && it->slice.begin <= at);
        const Tokens end = std::min(slice.end, it->slice.end);
        const Tokens begin = it->share.before(at) - it->share.before(it->slice.begin);
        append(result[p],
               {it->pack, it->first_row + begin, it->share.before(end) - it->share.before(at)});
        at = end;
      }
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs) {
  return regrouped(packs, [](const MicroPack&, std::size_t) { return RowShare{}; });
}

std::vector<std::vector<RowSegment>> regroup(const PackPlan& packs, const ShareOfPack& share_of) {
  return regrouped(packs, share_of);
}

namespace {

using Key = std::tuple<SequenceId, Tokens, Tokens>;

Key key_of(const Slice& slice) {
  return {slice.sequence, slice.begin, slice.end};
}

/// Slices of a pass are disjoint, so the least one names its pack.
const Slice& least(const MicroPack& pack) {
  return *std::ranges::min_element(pack.slices, {}, key_of);
}

std::vector<Key> sorted_keys(const MicroPack& pack) {
  std::vector<Key> keys;
  for (const Slice& slice : pack.slices) keys.push_back(key_of(slice));
  std::ranges::sort(keys);
  return keys;
}

bool same_slices(const MicroPack& a, const MicroPack& b) {
  return a.slices.size() == b.slices.size() && sorted_keys(a) == sorted_keys(b);
}

}  // namespace

std::vector<std::optional<PackId>> forward_pairs(const PackPlan& packs) {
  std::map<Key, PackId> forward;
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    forward.emplace(key_of(least(packs.forward[f])), PackId(f));
  std::vector<std::optional<PackId>> pairs;
  for (const MicroPack& pack : packs.backward) {
    const auto found = forward.find(key_of(least(pack)));
    const bool paired =
        found != forward.end() && same_slices(packs.forward[found->second.index()], pack);
    pairs.push_back(paired ? std::optional(found->second) : std::nullopt);
  }
  return pairs;
}

bool all_paired(const PackPlan& packs) {
  return std::ranges::all_of(forward_pairs(packs), [](const auto& f) { return f.has_value(); });
}

}  // namespace slimpack
