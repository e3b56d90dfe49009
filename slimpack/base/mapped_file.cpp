#include "slimpack/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view what,
                       std::string_view remedy) {
  const auto fail = [&](std::string_view cause) {
    invalid_input("{} '{}' cannot be read: {}; {}", what, path.string(), cause, remedy);
  };
  // O_NONBLOCK: opening a pipe must not wait for its writer. The check below refuses pipes.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(std::strerror(errno));
  struct stat status {};
  void* address = nullptr;
  std::string_view cause;
  if (::fstat(descriptor, &status) != 0) {
    cause = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    cause = "not a regular file";
  } else if (status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                     descriptor, 0);
    if (address == MAP_FAILED) cause = std::strerror(errno);
  }
  ::close(descriptor);
  if (!cause.empty()) fail(cause);
  bytes_ = {static_cast<const std::byte*>(address), static_cast<std::size_t>(status.st_size)};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  // munmap takes a pointer to non-const, but writes nothing.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace slimpack
