// Mesh: who talks to whom when all members of a group give each other something.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/reduction.h"

namespace slimpack {

/// One member's part of an all-gather in two rounds. Blocks of about √n neighbours
/// (cost/reduction.h) exchange what they have; then members of different blocks exchange what
/// their blocks have. So a member talks to about 2·√n others instead of n − 1. A small group is one
/// block and needs one round.
///
/// A reduce-scatter has the same partners. A member first sums what its block has for itself and
/// for its targets, and then gives each target its sum.
struct Mesh {
  Mesh(std::int32_t members, std::int32_t index);

  using Block = MemberBlock;
  [[nodiscard]] static std::vector<Block> blocks(std::int32_t members) {
    return member_blocks(members);
  }

  Block own;  ///< the members that exchange in the first round, with this one

  /// A block whose tensors the member gets in the second round.
  struct Received {
    Block block;
    std::int32_t from = 0;  ///< a member of the block
  };
  std::vector<Received> received;
  std::vector<std::int32_t> targets;  ///< who gets what the own block has
};

}  // namespace slimpack
