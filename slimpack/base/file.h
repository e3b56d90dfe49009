// Files: whole reads, and writes that are either complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace slimpack {

/// The whole file. Throws InvalidInput naming path, cause and `what` ("run configuration", …); a
/// file larger than `max_bytes` is refused, so that a mistaken path cannot fill the memory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::string_view what,
                                    std::uint64_t max_bytes = 1ULL << 30);

/// A file that appears under its name only when it is complete: written to a temporary name in the
/// same folder, flushed to disk and renamed by commit(); removed when destroyed uncommitted.
/// Creates missing parent folders. Every failure (full disk, read-only folder) throws InvalidInput
/// naming path and cause.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail(std::string_view doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// AtomicFile with one write.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace slimpack
