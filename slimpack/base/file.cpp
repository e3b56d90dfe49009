#include "slimpack/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "slimpack/base/error.h"

namespace slimpack {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path, std::string_view what, std::uint64_t max_bytes) {
  std::error_code error;
  if (!fs::exists(path, error))
    invalid_input("{} '{}' does not exist; check the path", what, path.string());
  if (!fs::is_regular_file(path, error))
    invalid_input("{} '{}' is not a regular file; give the path of one", what, path.string());
  const std::uint64_t size = fs::file_size(path, error);
  if (error || size > max_bytes)
    invalid_input("{} '{}' has {} bytes, at most {} are read", what, path.string(), size,
                  max_bytes);
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(size)))
    invalid_input("{} '{}' cannot be read: {}", what, path.string(), std::strerror(errno));
  return text;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += fmt::format(".tmp{}", ::getpid());
  std::error_code error;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  ::close(descriptor_);
  descriptor_ = -1;
}

void AtomicFile::fail(std::string_view doing) const {
  invalid_input(
      "cannot {} '{}': {}; nothing was written there: free some space or give another path", doing,
      path_.string(), std::strerror(errno));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace slimpack
