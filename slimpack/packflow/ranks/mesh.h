// Mesh: who talks to whom when all members of a group give each other something.
#pragma once

#include <cstdint>
#include <vector>

namespace slimpack {

/// One member's part of an all-gather in two rounds. Blocks of √n neighbours exchange what they
/// have; then members of different blocks exchange what their blocks have. So a member talks to
/// about 2·√n others instead of n − 1. Up to kDirectMembers members, as many as a node has GPUs,
/// are one block and need one round.
///
/// A reduce-scatter has the same partners. A member first sums what its block has for itself and
/// for its targets, and then gives each target its sum.
struct Mesh {
  Mesh(std::int32_t members, std::int32_t index);

  struct Block {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    [[nodiscard]] std::int32_t size() const { return end - begin; }
    bool operator==(const Block&) const = default;
  };
  /// All blocks of a group, in the order of their members.
  [[nodiscard]] static std::vector<Block> blocks(std::int32_t members);

  Block own;  ///< the members that exchange in the first round, with this one

  /// What another block has, in the second round.
  struct Received {
    Block block;
    std::int32_t from = 0;  ///< a member of the block
  };
  std::vector<Received> received;
  std::vector<std::int32_t> targets;  ///< who gets what the own block has
};

}  // namespace slimpack
