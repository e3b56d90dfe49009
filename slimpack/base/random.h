// Seeded random numbers that repeat on every platform and standard library.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

namespace slimpack {

/// splitmix64 (Steele, Lea, Flood 2014): 64 bits of state, so it can be saved in a cursor.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t state() const { return state_; }

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound), without bias (rejection). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t mask = bound <= 1 ? 0 : ~std::uint64_t{0} >> std::countl_zero(bound - 1);
    for (;;) {
      const std::uint64_t draw = next() & mask;
      if (draw < bound) return draw;
    }
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// A normal number with mean 0 and variance 1, by Box and Muller's transform. The transform's
  /// second value is not used.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// Fisher–Yates.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace slimpack
