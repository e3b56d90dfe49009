// The byte tokenizer: every byte is a token, so any text trains without a vocabulary file.
#pragma once

#include <cstdint>

namespace slimpack {

/// Tokens 0 to 255 are the bytes themselves.
inline constexpr std::int32_t kByteEndOfDocument = 256;  ///< closes every document
inline constexpr std::int32_t kByteVocabSize = 257;

}  // namespace slimpack
