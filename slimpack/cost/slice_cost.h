// Time of a slice as coefficients: small enough to be copied into a solver's inner loop.
#pragma once

#include "slimpack/workload/slice.h"

namespace slimpack {

/// Nanoseconds of a slice on one stage in one pass, without what a MicroPack costs by itself.
/// No coefficient is negative.
struct SliceCost {
  double per_slice = 0;
  double per_token = 0;
  double per_pair = 0;
  double per_prefix_token = 0;

  [[nodiscard]] constexpr double operator()(const Slice& slice) const {
    return per_slice + per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() +
           per_prefix_token * static_cast<double>(slice.prefix().count());
  }

  bool operator==(const SliceCost&) const = default;
};

/// The cost of both, one after the other.
[[nodiscard]] constexpr SliceCost operator+(const SliceCost& a, const SliceCost& b) {
  return {a.per_slice + b.per_slice, a.per_token + b.per_token, a.per_pair + b.per_pair,
          a.per_prefix_token + b.per_prefix_token};
}

}  // namespace slimpack
