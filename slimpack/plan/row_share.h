// Row shares: which tokens of a merged MicroPack's slices each of its replicas holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Every `replicas`-th position of a sequence from `index` on (striped attention,
/// arXiv:2311.09431); none where `replicas` is 0. A replica's tokens do not depend on the cuts of
/// forward and backward. The shares of a slice differ by at most one token, so causal attention is
/// divided evenly, too.
struct RowShare {
  std::int32_t replicas = 1;
  std::int32_t index = 0;

  /// The number of its tokens before `position`.
  [[nodiscard]] Tokens before(Tokens position) const {
    if (replicas == 0) return Tokens(0);
    return Tokens((position.count() + replicas - 1 - index) / replicas);
  }
  /// The number of its tokens in the slice.
  [[nodiscard]] Tokens rows(const Slice& slice) const {
    return before(slice.end) - before(slice.begin);
  }
  /// The share's first position at or after the slice's begin; 0 where `replicas` is 0.
  [[nodiscard]] Tokens first(const Slice& slice) const {
    return Tokens(before(slice.begin).count() * replicas + index);
  }
  bool operator==(const RowShare&) const = default;
};

/// The share of a zone's sequences that member `member` of the group holds.
[[nodiscard]] inline RowShare row_share(const Zone& zone, std::int32_t member) {
  return zone.has(member) ? RowShare{zone.size, member - zone.first} : RowShare{0, 0};
}

/// The tokens of which tensor-parallel rank `index` of `ranks` holds the hidden states (sequence
/// parallelism, arXiv:2205.05198). `held`: the tokens of its replica.
[[nodiscard]] inline RowShare hidden_share(const RowShare& held, std::int32_t ranks,
                                           std::int32_t index) {
  return {held.replicas * ranks, held.index + held.replicas * index};
}

/// The tokens of a MicroPack that a replica holds, slice by slice: outside of attention, or in it.
/// Keeps a reference to the MicroPack.
class PackShare {
 public:
  PackShare(const MicroPack& pack, ReplicaId replica)
      : pack_(&pack), member_(replica.value() % pack.replicas) {}

  [[nodiscard]] const MicroPack& pack() const { return *pack_; }
  [[nodiscard]] RowShare of(std::size_t slice) const {
    const Zone zone = in_attention_ ? pack_->zone(slice) : pack_->row_zone(slice);
    return hidden_share(row_share(zone, member_), ranks_, index_);
  }
  /// The tokens of all slices together.
  [[nodiscard]] Tokens rows() const {
    Tokens rows{0};
    for (std::size_t s = 0; s < pack_->slices.size(); ++s) rows += of(s).rows(pack_->slices[s]);
    return rows;
  }
  /// The tokens that the replica holds in attention.
  [[nodiscard]] PackShare in_attention() const {
    PackShare same = *this;
    same.in_attention_ = true;
    return same;
  }
  /// The part of the tokens of which a tensor-parallel rank holds the hidden states (hidden_share).
  [[nodiscard]] PackShare hidden(std::int32_t ranks, std::int32_t index) const {
    PackShare part = *this;
    part.ranks_ = ranks;
    part.index_ = index;
    return part;
  }

 private:
  const MicroPack* pack_;
  std::int32_t member_;
  std::int32_t ranks_ = 1, index_ = 0;
  bool in_attention_ = false;
};

}  // namespace slimpack
