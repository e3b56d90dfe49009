// Row shares: which tokens of a merged MicroPack's slices each of its replicas holds.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// Every `replicas`-th position of a sequence from `index` on (striped attention,
/// arXiv:2311.09431). A replica's tokens do not depend on the cuts of forward and backward. The
/// shares of a slice differ by at most one token, so causal attention is divided evenly, too.
struct RowShare {
  std::int32_t replicas = 1;
  std::int32_t index = 0;

  /// The number of its tokens before `position`.
  [[nodiscard]] Tokens before(Tokens position) const {
    return Tokens((position.count() + replicas - 1 - index) / replicas);
  }
  /// The number of its tokens in the slice.
  [[nodiscard]] Tokens rows(const Slice& slice) const {
    return before(slice.end) - before(slice.begin);
  }
  /// The number of its tokens in all slices of the MicroPack.
  [[nodiscard]] Tokens rows(const MicroPack& pack) const {
    Tokens rows{0};
    for (const Slice& slice : pack.slices) rows += this->rows(slice);
    return rows;
  }
  /// Its first position at or after the slice's begin.
  [[nodiscard]] Tokens first(const Slice& slice) const {
    return Tokens(before(slice.begin).count() * replicas + index);
  }
  bool operator==(const RowShare&) const = default;
};

[[nodiscard]] inline RowShare row_share(const MicroPack& pack, ReplicaId replica) {
  return {pack.replicas, replica.value() % pack.replicas};
}

/// The tokens of which tensor-parallel rank `index` of `ranks` holds the hidden states (sequence
/// parallelism, arXiv:2205.05198). `held`: the tokens of its replica.
[[nodiscard]] inline RowShare hidden_share(const RowShare& held, std::int32_t ranks,
                                           std::int32_t index) {
  return {held.replicas * ranks, held.index + held.replicas * index};
}

}  // namespace slimpack
