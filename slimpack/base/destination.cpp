#include "slimpack/base/destination.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/base/output_error.h"

namespace slimpack {

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
