#include "slimpack/base/checksum.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL  // no library to link
#include <xxhash.h>

namespace slimpack {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::text() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(&state_->hash));
}

std::string checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.text();
}

}  // namespace slimpack
