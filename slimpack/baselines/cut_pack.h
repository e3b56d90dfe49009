// Cutting packs into slices: of equal weight along a pack, or at the same tokens of every sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// The quantity that is equal for all slices of a pack: FLOPs, time or tokens.
struct SliceWeight {
  double per_token = 1;
  double per_pair = 0;
  double per_window_pair = 0;
  Tokens window{0};  ///< 0 = no layer has one

  [[nodiscard]] double operator()(const Slice& slice) const {
    return per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() +
           (window > Tokens(0) ? per_window_pair * slice.window_pairs(window) : 0);
  }
};

/// Slices weigh what their tokens and pairs take. So a sequence weighs as much as its slices.
[[nodiscard]] SliceWeight time_weight(const PackCost& cost);

/// `count` MicroPacks of equal weight along the pack, up to one token each. A pack with too few
/// tokens gives fewer.
[[nodiscard]] std::vector<MicroPack> cut_pack(const MicroPack& pack, const SliceWeight& weight_of,
                                              std::int32_t count);

/// The forward MicroPacks of a micro-batch that has one sequence longer than `ends.front()` at
/// most. Sequences are cut at `ends`. Each slice that reaches an end is alone; what is left of the
/// sequences is the last MicroPack. REQUIRES: ends ascend strictly from 1 token on.
[[nodiscard]] std::vector<MicroPack> slices_at(const SequenceLengths& lengths,
                                               const std::vector<SequenceId>& sequences,
                                               const std::vector<Tokens>& ends);

}  // namespace slimpack
