#include "slimpack/base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "slimpack/base/destination.h"

namespace slimpack {

namespace fs = std::filesystem;

// readdir: std::filesystem's directory iterators clash with symbols that libtorch exports.
std::vector<std::string> folder_entries(const fs::path& folder) {
  std::vector<std::string> names;
  const auto close = [](DIR* d) { ::closedir(d); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void remove_folder(const fs::path& folder) {
  for (const std::string& name : folder_entries(folder)) {
    const fs::path path = folder / name;
    if (::unlink(path.c_str()) != 0 && (errno == EISDIR || errno == EPERM)) remove_folder(path);
  }
  ::rmdir(folder.c_str());
}

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int cause = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed) output_failed("flush folder", folder, cause);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    output_failed(fmt::format("rename '{}' to", from.string()), to, errno);
}

}  // namespace slimpack
