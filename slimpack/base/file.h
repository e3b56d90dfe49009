// Files: whole reads, and writes that are either complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "slimpack/base/descriptor.h"

namespace slimpack {

inline constexpr std::uint64_t kMaxReadBytes = 1ULL << 30;

/// The whole file. Throws InvalidInput naming path, cause and `what` ("run configuration", …); a
/// file larger than `max_bytes` is refused, so that a mistaken path cannot fill the memory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::string_view what,
                                    std::uint64_t max_bytes = kMaxReadBytes);

/// Likewise, and also of pipes and devices, to their end; "-" is the standard input. Waits for
/// whoever writes there.
[[nodiscard]] std::string read_stream(const std::filesystem::path& path, std::string_view what,
                                      std::uint64_t max_bytes = kMaxReadBytes);

/// How messages name what read_stream reads: "standard input" for "-".
[[nodiscard]] std::string stream_name(const std::filesystem::path& path);

/// A file that appears under its name only when it is complete: written without a name, flushed to
/// disk and named by commit(); gone when destroyed uncommitted, or when the process is killed.
/// Where the file system has no files without names, they are called FILE.tmpPROCESS, and a process
/// that is killed leaves them. Links are followed and stay links. A file that is replaced hands on
/// its permissions. Creates missing parent folders. Throws as output_failed, and InvalidInput for
/// what is no regular file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

  /// Where the file will be: the path, with links followed.
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }

 private:
  void create();

  std::filesystem::path path_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Descriptor file_;
  bool named_ = false;  ///< temporary_ exists
};

/// Whether `path` is what a process that was killed may have left of an AtomicFile for `target`.
[[nodiscard]] bool is_left_behind(const std::filesystem::path& path,
                                  const std::filesystem::path& target);

/// AtomicFile with one write. Pipes, devices and /dev/stdout are written as they stand; opening a
/// pipe waits for its reader. Throws as AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace slimpack
