#include "slimpack/baselines/cut_pack.h"

#include <utility>

namespace slimpack {
namespace {

/// The least position in (begin, end] of the sequence at which the weight from `begin` on reaches
/// `weight`; `end` if it never does.
Tokens cut_at(const SliceWeight& weight_of, const Slice& rest, double weight) {
  std::int64_t low = rest.begin.count() + 1;
  std::int64_t high = rest.end.count();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (weight_of(Slice{rest.sequence, rest.begin, Tokens(middle)}) >= weight)
      high = middle;
    else
      low = middle + 1;
  }
  return Tokens(low);
}

}  // namespace

SliceWeight time_weight(const PackCost& cost) {
  return {cost.per_token, cost.per_pair, cost.per_window_pair, cost.window};
}

std::vector<MicroPack> cut_pack(const MicroPack& pack, const SliceWeight& weight_of,
                                std::int32_t count) {
  double total = 0;
  for (const Slice& slice : pack.slices) total += weight_of(slice);
  std::vector<MicroPack> out(1);
  double before = 0;  // weight of everything cut so far
  std::int32_t cuts = 0;
  for (Slice rest : pack.slices) {
    while (rest.begin < rest.end) {
      const double target = total * (cuts + 1) / count;
      Slice taken = rest;
      const bool last = cuts + 1 == count;
      if (!last && before + weight_of(rest) >= target)
        taken.end = cut_at(weight_of, rest, target - before);
      before += weight_of(taken);
      rest.begin = taken.end;
      out.back().slices.push_back(taken);
      while (cuts + 1 < count && before >= total * (cuts + 1) / count) ++cuts;
      if (!last && before >= target) out.emplace_back();
    }
  }
  if (out.back().slices.empty()) out.pop_back();
  return out;
}

std::vector<MicroPack> slices_at(const SequenceLengths& lengths,
                                 const std::vector<SequenceId>& sequences,
                                 const std::vector<Tokens>& ends) {
  std::vector<MicroPack> out;
  MicroPack last;
  for (const SequenceId id : sequences) {
    const Tokens length = lengths[id.index()];
    Tokens begin;
    for (const Tokens end : ends) {
      if (end > length) break;
      out.push_back({{Slice{id, begin, end}}});
      begin = end;
    }
    if (begin < length) last.slices.push_back({id, begin, length});
  }
  if (!last.slices.empty()) out.push_back(std::move(last));
  return out;
}

}  // namespace slimpack
