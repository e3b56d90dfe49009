// Blocks of a group's members, for exchanges of all with all (packflow/ranks/process_transfers.h).
#pragma once

#include <cstdint>
#include <vector>

namespace slimpack {

/// The members [begin, end) of a group.
struct MemberBlock {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  [[nodiscard]] std::int32_t size() const { return end - begin; }
  bool operator==(const MemberBlock&) const = default;
};

/// All blocks of a group, in the order of their members: one of up to 15 members, else blocks of
/// the power of two, from 8 on, with which the member with most partners has fewest: about √n. The
/// last block may be smaller. So no block cuts a node of 1, 2, 4 or 8 ranks, and the blocks' sums
/// are parts of a pairwise sum over all members.
[[nodiscard]] std::vector<MemberBlock> member_blocks(std::int32_t members);

}  // namespace slimpack
