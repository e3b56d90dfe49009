// A sequence's tokens, and which of them are targets: what goes from the reader to the head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slimpack {

/// By token of a sequence: 1 = a target, which the token before it predicts and the loss counts,
/// 0 = none. The first token is none.
using TargetMask = std::vector<std::uint8_t>;

/// Every token but the first is a target.
[[nodiscard]] TargetMask all_targets(std::size_t tokens);
/// The number of targets.
[[nodiscard]] std::int64_t count_of(const TargetMask& targets);

/// Both fields have one entry for each token.
struct SequenceTokens {
  std::vector<std::int64_t> tokens;
  TargetMask targets;
};

}  // namespace slimpack
