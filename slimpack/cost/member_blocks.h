// Blocks of a group's members, for exchanges of all with all (packflow/ranks/mesh.h).
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

/// All blocks of a group, in the order of their members: one of up to 15 members, else of about √n.
/// They begin at multiples of eight, so no block cuts a node of 1, 2, 4 or 8 ranks. They follow
/// from the number of members alone, so sums have the same bits on any machines.
[[nodiscard]] std::vector<MemberBlock> member_blocks(std::int32_t members);

}  // namespace slimpack
