// Sequences and their slices, the tokens that a step trains on, before anything is planned, and
// zones: the ranks that share the attention of a sequence (Zeppelin, arXiv:2509.21841).
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// Half-open token range [begin, end) of one sequence. Its queries attend to the `prefix()` tokens
/// before it and causally to themselves.
struct Slice {
  SequenceId sequence;
  Tokens begin;
  Tokens end;

  [[nodiscard]] constexpr Tokens length() const { return end - begin; }
  [[nodiscard]] constexpr Tokens prefix() const { return begin; }
  /// Query–key pairs of causal attention: q·prefix + q(q+1)/2. Exact below 2^53.
  [[nodiscard]] constexpr double causal_pairs() const {
    const auto q = static_cast<double>(length().count());
    return q * static_cast<double>(begin.count()) + q * (q + 1) / 2;
  }

  /// Query-key pairs where a query attends to `window` keys at most, its own among them:
  /// Σ min(t + 1, window) over the slice's positions t. Exact below 2^53.
  [[nodiscard]] constexpr double window_pairs(Tokens window) const {
    const Tokens full = std::clamp(window, begin, end);  // from here on a query has them all
    const auto rest = static_cast<double>((end - full).count());
    return Slice{sequence, begin, full}.causal_pairs() + rest * static_cast<double>(window.count());
  }
  /// Tokens of the prefix that its first query still attends to, or would but for its own key.
  [[nodiscard]] constexpr Tokens window_prefix(Tokens window) const {
    return std::min(begin, window - Tokens(1));
  }

  bool operator==(const Slice&) const = default;
};

/// The lengths of one step's sequences (training samples) by SequenceId. Ids count from 0 in every
/// step.
using SequenceLengths = std::vector<Tokens>;

[[nodiscard]] Tokens total_tokens(const SequenceLengths& lengths);

/// The ids 0, 1, … of a step's sequences.
[[nodiscard]] std::vector<SequenceId> all_sequences(const SequenceLengths& lengths);

/// Longest first, ties by id. Cost: O(sequences) where they are so already.
void sort_longest_first(const SequenceLengths& lengths, std::vector<SequenceId>& sequences);

/// Neighbours. Each has an equal share of the sequence's rows, and of its causal pairs.
struct Zone {
  std::int32_t first = 0;
  std::int32_t size = 1;

  [[nodiscard]] std::int32_t end() const { return first + size; }
  [[nodiscard]] bool has(std::int32_t rank) const { return rank >= first && rank < end(); }
  auto operator<=>(const Zone&) const = default;
};

}  // namespace slimpack
