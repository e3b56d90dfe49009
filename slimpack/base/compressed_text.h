// Text made small for another process, with its size and checksum.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// 36 bytes of mark, checksum and size, then the text by zlib's fastest level.
[[nodiscard]] std::string compressed(std::string_view text);

/// The text that compressed() was given. Throws InvalidInput naming `origin` for bytes that are
/// truncated, damaged or something else. Memory: the text, at most 1,032 times the given bytes.
[[nodiscard]] std::string decompressed(std::string_view bytes, std::string_view origin);

}  // namespace slimpack
