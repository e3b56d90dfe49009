// A file descriptor that is closed when its owner goes.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <utility>

namespace slimpack {

class Descriptor {
 public:
  /// Owns `number`; negative = none.
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  [[nodiscard]] explicit operator bool() const { return number_ >= 0; }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// Writes all bytes, however many calls that takes. False, with errno, when one of them fails.
[[nodiscard]] bool write_all(const Descriptor& out, std::span<const std::byte> bytes);

}  // namespace slimpack
