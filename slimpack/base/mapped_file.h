// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace slimpack {

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
