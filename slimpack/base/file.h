// Files: whole reads, bytes mapped into memory, and writes that are either complete or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "slimpack/base/destination.h"

namespace slimpack {

inline constexpr std::uint64_t kMaxReadBytes = 1ULL << 30;

/// The whole text of a regular file. Throws InvalidInput naming path, cause and `what` ("run
/// configuration", …). Refuses more than `max_bytes`: a mistaken path must not fill the memory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::string_view what,
                                    std::uint64_t max_bytes = kMaxReadBytes);

/// Reads like read_file, but also reads pipes and devices to their end, and "-", the standard
/// input. Waits for their writers.
[[nodiscard]] std::string read_stream(const std::filesystem::path& path, std::string_view what,
                                      std::uint64_t max_bytes = kMaxReadBytes);

/// The name of read_stream's source in messages: the path, or "standard input" for "-".
[[nodiscard]] std::string stream_name(const std::filesystem::path& path);

/// A file that appears under its name only when it is complete. It has no name until commit()
/// flushes it to disk and names it. It vanishes if it is destroyed before that, or if the process
/// is killed. On file systems without unnamed files it is called FILE.tmpPROCESS until commit(),
/// and a killed process leaves it behind. Links are followed and stay links. The new file takes the
/// permissions of the file that it replaces. Missing parent folders are created. Throws as
/// output_failed, and InvalidInput if the path names something other than a regular file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

  /// The path of the file, with links followed.
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }

 private:
  void create();

  std::filesystem::path path_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Descriptor file_;
  bool named_ = false;  ///< temporary_ exists
};

/// Whether a killed process may have left `path` behind while it wrote an AtomicFile for `target`.
[[nodiscard]] bool is_left_behind(const std::filesystem::path& path,
                                  const std::filesystem::path& target);

/// Throws as AtomicFile if no file can be written to this path, so that a long task finds that out
/// before it begins. Leaves nothing behind but missing parent folders. Pipes and devices pass.
void require_writable_file(const std::filesystem::path& path);

/// Writes the whole text through an AtomicFile. Writes pipes, devices, /dev/stdout and "-", the
/// standard output, directly;
/// opening a pipe waits for its reader. Throws as AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Pages load when they are first touched. The file must not shrink while it is mapped: reading
/// beyond its end would stop the program (SIGBUS).
class MappedFile {
 public:
  /// Throws InvalidInput naming `what`, path and cause when the file is missing, is no regular
  /// file, or cannot be mapped. `remedy` ends that message.
  MappedFile(const std::filesystem::path& path, std::string_view what, std::string_view remedy);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace slimpack
