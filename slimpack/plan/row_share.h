// Row shares: which tokens of a merged MicroPack's slices each of its replicas holds.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// Every `replicas`-th position, from `index` on (striped attention, arXiv:2311.09431): however a
/// sequence is cut, forward and backward, each replica holds the same tokens, its part of every
/// slice is even to one token, and so is its part of the causal attention.
struct RowShare {
  std::int32_t replicas = 1;
  std::int32_t index = 0;

  /// Of the tokens before `position`, how many it holds.
  [[nodiscard]] Tokens before(Tokens position) const {
    return Tokens((position.count() + replicas - 1 - index) / replicas);
  }
  /// Of the slice's tokens.
  [[nodiscard]] Tokens rows(const Slice& slice) const {
    return before(slice.end) - before(slice.begin);
  }
  /// Of all slices of the MicroPack.
  [[nodiscard]] Tokens rows(const MicroPack& pack) const {
    Tokens rows{0};
    for (const Slice& slice : pack.slices) rows += this->rows(slice);
    return rows;
  }
  /// The first position that it holds at or after the slice's begin.
  [[nodiscard]] Tokens first(const Slice& slice) const {
    return Tokens(before(slice.begin).count() * replicas + index);
  }
  bool operator==(const RowShare&) const = default;
};

[[nodiscard]] inline RowShare row_share(const MicroPack& pack, ReplicaId replica) {
  return {pack.replicas, replica.value() % pack.replicas};
}

/// Of the tokens that a replica holds, those of which its tensor-parallel rank `index` of `ranks`
/// holds the hidden states (sequence parallelism, arXiv:2205.05198).
[[nodiscard]] inline RowShare hidden_share(const RowShare& held, std::int32_t ranks,
                                           std::int32_t index) {
  return {held.replicas * ranks, held.index + held.replicas * index};
}

}  // namespace slimpack
