// Text made small for another process, with its size and checksum.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// 36 bytes of mark, checksum and size, then the text by zlib's fastest level.
[[nodiscard]] std::string compressed(std::string_view text);

/// The text again. Throws InvalidInput naming `origin` for bytes that are not whole: truncated,
/// damaged or something else. Memory: the text, and never more than 1,032 bytes for each one given.
[[nodiscard]] std::string decompressed(std::string_view bytes, std::string_view origin);

}  // namespace slimpack
