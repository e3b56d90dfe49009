#include "slimpack/cost/member_blocks.h"

#include <algorithm>

namespace slimpack {
namespace {

/// With how many others a member talks at most (Mesh of packflow/ranks) if blocks have so many
/// members: those of its block, and one for each place in another block that it serves.
std::int32_t most_partners(std::int32_t members, std::int32_t size) {
  const std::int32_t whole = members / size, rest = members % size;
  const std::int32_t of_whole = whole == 0 ? 0 : size - 1 + whole - 1 + (rest > 0 ? 1 : 0);
  if (rest == 0) return of_whole;
  return std::max(of_whole, rest - 1 + whole * ((size + rest - 1) / rest));
}

}  // namespace

std::vector<MemberBlock> member_blocks(std::int32_t members) {
  constexpr std::int32_t kNode = 8;
  std::int32_t size = kNode;
  for (std::int32_t other = 2 * kNode; other / 2 < members; other *= 2)
    if (most_partners(members, other) <= most_partners(members, size)) size = other;
  if (members < 2 * kNode) size = members;
  std::vector<MemberBlock> blocks;
  for (std::int32_t begin = 0; begin < members; begin += size)
    blocks.push_back({begin, std::min(begin + size, members)});
  return blocks;
}

}  // namespace slimpack
