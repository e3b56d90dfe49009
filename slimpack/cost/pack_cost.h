// Time of a MicroPack as coefficients: small enough to be copied into a solver's inner loop.
#pragma once

#include "slimpack/workload/slice.h"

namespace slimpack {

/// Nanoseconds of a MicroPack in one pass, of a layer or of a whole stage:
///   per_pack + Σ slices (per_slice + per_token·q + per_pair·pairs + per_prefix_token·prefix)
/// with q tokens and `pairs` causal query–key pairs; per_prefix_token is the bandwidth term of
/// reading the prefix's keys and values, and in backward of writing their gradients.
/// No coefficient is negative.
struct PackCost {
  double per_pack = 0;
  double per_slice = 0;
  double per_token = 0;
  double per_pair = 0;
  double per_prefix_token = 0;

  /// What a slice adds to its MicroPack.
  [[nodiscard]] constexpr double operator()(const Slice& slice) const {
    return per_slice + per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() +
           per_prefix_token * static_cast<double>(slice.prefix().count());
  }

  bool operator==(const PackCost&) const = default;
};

/// The cost of both, one after the other.
[[nodiscard]] constexpr PackCost operator+(const PackCost& a, const PackCost& b) {
  return {a.per_pack + b.per_pack, a.per_slice + b.per_slice, a.per_token + b.per_token,
          a.per_pair + b.per_pair, a.per_prefix_token + b.per_prefix_token};
}

/// Each term multiplied.
[[nodiscard]] constexpr PackCost operator*(double factor, const PackCost& a) {
  return {factor * a.per_pack, factor * a.per_slice, factor * a.per_token, factor * a.per_pair,
          factor * a.per_prefix_token};
}

/// Each term divided.
[[nodiscard]] constexpr PackCost operator/(const PackCost& a, double divisor) {
  return {a.per_pack / divisor, a.per_slice / divisor, a.per_token / divisor, a.per_pair / divisor,
          a.per_prefix_token / divisor};
}

}  // namespace slimpack
