// Mesh: who talks to whom when all members of a large group give each other something.
#pragma once

#include <cstdint>
#include <vector>

namespace slimpack {

/// One member's part of an all-gather in two rounds. Blocks of √n neighbours exchange what they
/// have; then members of different blocks exchange what their blocks have. So a member talks to
/// about 2·√n others instead of n − 1.
struct Mesh {
  Mesh(std::int32_t members, std::int32_t index);

  struct Block {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    bool operator==(const Block&) const = default;
  };
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
