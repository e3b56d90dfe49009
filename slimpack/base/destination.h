// Where output goes that is written to a path.
#pragma once

#include <filesystem>

#include "slimpack/base/descriptor.h"

namespace slimpack {

enum class DestinationKind {
  kFile,    ///< a regular file, or nothing yet
  kStream,  ///< a pipe, a device or an open descriptor: written as it stands, never replaced
};

struct Destination {
  DestinationKind kind;
  std::filesystem::path path;  ///< what links lead to; nothing need be there
  Descriptor open;  ///< a second one of the process's own, where the path names that (/dev/stdout)
};

/// Follows the links at `path`, also one that leads to nothing yet. Creates nothing. Throws
/// InvalidInput where no output can go: folders, sockets, links that lead in a circle.
[[nodiscard]] Destination find_destination(const std::filesystem::path& path);

}  // namespace slimpack
