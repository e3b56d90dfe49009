#include "slimpack/base/destination.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

bool path_is_wrong(int cause) {
  switch (cause) {
    case EACCES:
    case EBADF:  // a closed descriptor, or one for reading only
    case EBUSY:
    case EEXIST:
    case EINVAL:  // a name that the file system does not allow
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENODEV:
    case ENOENT:
    case ENOTDIR:
    case ENOTEMPTY:
    case ENXIO:
    case EPERM:
    case EROFS:
    case ETXTBSY:
    case EXDEV:
      return true;
    default:
      return false;
  }
}

const char* remedy(int cause) {
  if (cause == ENOSPC || cause == EDQUOT) return "free some space";
  return cause == EFBIG ? "raise the limit of file sizes (ulimit -f)" : "check the disk";
}

}  // namespace

void output_failed(std::string_view doing, const std::filesystem::path& path, int cause,
                   std::string_view elsewhere) {
  if (path_is_wrong(cause))
    invalid_input("cannot {} '{}': {}; {}", doing, path.string(), std::strerror(cause), elsewhere);
  run_failed("cannot {} '{}': {}; {} or {}", doing, path.string(), std::strerror(cause),
             remedy(cause), elsewhere);
}

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

namespace fs = std::filesystem;

namespace {

constexpr int kMaxLinks = 40;  // the kernel's own limit
constexpr const char* kStandardOutput = "-";

/// The number of the process's descriptor that `path` names: /proc/self/fd/1, /dev/fd/63. Opening
/// such a path again would write from the file's beginning, over what others wrote.
std::optional<int> descriptor_named(const fs::path& path) {
  std::error_code none;
  const fs::path folder = fs::canonical(path.parent_path(), none);
  if (none || folder != fs::canonical("/proc/self/fd", none)) return std::nullopt;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

DestinationKind kind_of(const fs::path& path, mode_t mode) {
  if (S_ISDIR(mode)) output_failed("write", path, EISDIR);
  if (S_ISSOCK(mode))
    invalid_input("cannot write '{}': it is a socket; give another path", path.string());
  return S_ISREG(mode) ? DestinationKind::kFile : DestinationKind::kStream;
}

}  // namespace

Destination find_destination(const fs::path& path) {
  if (!path.has_filename()) output_failed("write", path, path.empty() ? ENOENT : EISDIR);
  fs::path at = path == kStandardOutput ? "/dev/stdout" : path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    if (const auto number = descriptor_named(at)) {
      Descriptor open(::fcntl(*number, F_DUPFD_CLOEXEC, 0));
      if (!open) output_failed("write", path, errno);
      return {DestinationKind::kStream, at, std::move(open)};
    }
    struct stat status {};
    // A path without a status cannot be created either; creating it reports the cause.
    if (::lstat(at.c_str(), &status) != 0) return {DestinationKind::kFile, at, Descriptor()};
    if (!S_ISLNK(status.st_mode)) return {kind_of(at, status.st_mode), at, Descriptor()};
    std::error_code error;
    const fs::path target = fs::read_symlink(at, error);
    if (error) output_failed("write", path, error.value());
    at = at.parent_path() / target;
  }
  output_failed("write", path, ELOOP);
}

}  // namespace slimpack
