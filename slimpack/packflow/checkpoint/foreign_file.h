// Foreign file: what stands in the place of weights where a download went wrong.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace slimpack {

/// Says which other kind of file has these bytes, and the remedy: "is a Git LFS pointer …; run 'git
/// lfs pull' …". nullopt if it may be a safetensors file.
[[nodiscard]] std::optional<std::string> foreign_kind(std::span<const std::byte> bytes);

}  // namespace slimpack
