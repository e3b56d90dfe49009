#include "slimpack/cost/member_blocks.h"

#include <algorithm>
#include <cmath>

namespace slimpack {

std::vector<MemberBlock> member_blocks(std::int32_t members) {
  constexpr std::int32_t kNode = 8;
  const std::int32_t nodes = members / kNode;
  const auto per_block =
      std::max(1, static_cast<std::int32_t>(std::lround(std::sqrt(members) / kNode)));
  const std::int32_t count = std::max(1, (nodes + per_block / 2) / per_block);
  std::vector<MemberBlock> blocks;
  for (std::int32_t b = 0; b < count; ++b)
    blocks.push_back({nodes * b / count * kNode, nodes * (b + 1) / count * kNode});
  blocks.back().end = members;  // with those that are no whole node
  return blocks;
}

}  // namespace slimpack
