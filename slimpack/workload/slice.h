// Sequences and their slices: the tokens that a step trains on, before anything is planned.
#pragma once

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

  bool operator==(const Slice&) const = default;
};

/// The lengths of one step's sequences (training samples) by SequenceId. Ids count from 0 in every
/// step.
using SequenceLengths = std::vector<Tokens>;

[[nodiscard]] Tokens total_tokens(const SequenceLengths& lengths);

/// The ids 0, 1, … of a step's sequences.
[[nodiscard]] std::vector<SequenceId> all_sequences(const SequenceLengths& lengths);

}  // namespace slimpack
