// Checksums tell whether bytes are still those that were written: XXH3 with 64 bits. They find
// damage, not forgery.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace slimpack {

/// Computes the checksum of bytes that come in parts. A moved-from object can only be destroyed.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  /// The checksum of all bytes so far: 16 hexadecimal digits, the same on every machine.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string checksum_of(std::span<const std::byte> bytes);

}  // namespace slimpack
