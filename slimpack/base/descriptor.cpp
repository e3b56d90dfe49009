#include "slimpack/base/descriptor.h"

#include <cerrno>

namespace slimpack {

bool write_all(const Descriptor& out, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(out.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;  // the device takes no bytes
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace slimpack
