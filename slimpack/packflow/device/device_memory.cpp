#include "slimpack/packflow/device/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace slimpack {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// /proc/meminfo: "MemAvailable:   21498112 kB".
std::int64_t machine_available(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string word;
  while (file >> word) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return kUnknown;
}

/// The number in a file of one; none where it is "max".
std::int64_t limit_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t bytes = 0;
  return in >> bytes ? bytes : kUnknown;
}

/// The least limit of the group and of the groups around it, up to the folder where groups are
/// mounted. In bytes; kUnknown where a file names none.
std::int64_t least_limit(const fs::path& mount, fs::path group, const char* file) {
  std::int64_t least = limit_in(mount / file);
  for (; group.has_filename(); group = group.parent_path())
    least = std::min(least, limit_in(mount / group / file));
  return least;
}

/// /proc/self/cgroup has a line "id:controllers:/group" for each tree of groups; version 2 is one
/// tree, without controllers.
std::int64_t group_limit(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::int64_t least = kUnknown;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers =
        fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,")
      least = std::min(least, least_limit(mount, group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(mount / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace

Bytes available_memory(const fs::path& root) {
  const std::int64_t bytes = std::min(machine_available(root), group_limit(root));
  return Bytes(bytes == kUnknown ? 0 : bytes);
}

Bytes device_memory(c10::Device device) {
  if (device.is_cpu()) return available_memory();
  const auto [free, all] =
      c10::getDeviceAllocator(device.type())->getMemoryInfo(std::max<int>(0, device.index()));
  return Bytes(static_cast<std::int64_t>(all));
}

}  // namespace slimpack
