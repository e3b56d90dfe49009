// Distinct types for quantities and ids, so that a token count is never passed for a byte count.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace slimpack {

/// A count of one unit. Quantities of the same unit add and compare, and plain numbers scale them.
/// Everything else goes through count(), which shows the reader that the unit is dropped.
template <class Tag, class Rep = std::int64_t>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}

  [[nodiscard]] constexpr Rep count() const { return count_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return count_ += other.count_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return count_ -= other.count_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep times) { return Quantity(a.count_ * times); }
  friend constexpr Quantity operator*(Rep times, Quantity a) { return a * times; }
  friend constexpr Quantity operator/(Quantity a, Rep parts) { return Quantity(a.count_ / parts); }

 private:
  Rep count_ = 0;
};

using Tokens = Quantity<struct TokensTag>;
using Bytes = Quantity<struct BytesTag>;
/// Time, simulated or measured, in integer nanoseconds: sums are exact and ties are real ties.
using Nanos = Quantity<struct NanosTag>;
using Flops = Quantity<struct FlopsTag, double>;

[[nodiscard]] constexpr double to_seconds(Nanos t) {
  return static_cast<double>(t.count()) * 1e-9;
}
[[nodiscard]] constexpr Nanos from_seconds(double s) {
  return Nanos(static_cast<std::int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5)));
}

/// A number that names one object of a kind; index() is the object's place in a vector of them.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t value) : value_(value) {}
  constexpr explicit Id(std::size_t index) : value_(static_cast<std::int32_t>(index)) {}

  [[nodiscard]] constexpr std::int32_t value() const { return value_; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::int32_t value_ = 0;
};

using SequenceId = Id<struct SequenceTag>;
using StageId = Id<struct StageTag>;
using ReplicaId = Id<struct ReplicaTag>;
using PackId = Id<struct PackTag>;

}  // namespace slimpack
