// Destinations of output: open descriptors, where output to a path goes, and why it could not be
// written.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace slimpack {

/// Throws "cannot DOING 'PATH': …" for `cause`, an errno. InvalidInput: nothing can be written to
/// such a path (no permission, a folder, a read-only disk). RunFailed: the path is good but writing
/// failed (full or broken disk, quota, limit of file sizes). `elsewhere` is the remedy that always
/// helps.
[[noreturn]] void output_failed(std::string_view doing, const std::filesystem::path& path,
                                int cause, std::string_view elsewhere = "give another path");

/// A file descriptor that is closed when its owner goes.
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

enum class DestinationKind {
  kFile,    ///< a regular file, or nothing yet
  kStream,  ///< a pipe, a device or an open descriptor: written as it stands, never replaced
};

struct Destination {
  DestinationKind kind;
  std::filesystem::path path;  ///< with links followed; it need not exist
  Descriptor open;  ///< a duplicate, if the path names an open descriptor (/dev/stdout); else none
};

/// Follows the links at `path`, also a link whose target does not exist yet. "-" is the standard
/// output. Creates nothing.
/// Throws InvalidInput for paths that cannot be written: folders, sockets, circles of links.
[[nodiscard]] Destination find_destination(const std::filesystem::path& path);

}  // namespace slimpack
