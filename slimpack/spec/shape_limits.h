// The largest sizes of a model that its readers take. With them a layer has below 2^45 parameters
// and a model below 2^58, so sizes and their products fit 64 bits.
#pragma once

#include <cstdint>

namespace slimpack {

inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxIntermediate = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxLayers = std::int64_t{1} << 12;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxPositions = (std::int64_t{1} << 31) - 1;

}  // namespace slimpack
