// Finds where output to a path goes.
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
  std::filesystem::path path;  ///< with links followed; it need not exist
  Descriptor open;  ///< a duplicate, if the path names an open descriptor (/dev/stdout); else none
};

/// Follows the links at `path`, also a link whose target does not exist yet. "-" is the standard
/// output. Creates nothing.
/// Throws InvalidInput for paths that cannot be written: folders, sockets, circles of links.
[[nodiscard]] Destination find_destination(const std::filesystem::path& path);

}  // namespace slimpack
