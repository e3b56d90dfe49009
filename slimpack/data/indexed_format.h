// Constants of the .idx layout, shared by reader and writer. All numbers are little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slimpack::indexed_format {

static_assert(std::endian::native == std::endian::little, "fields are copied, not swapped");

inline constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::size_t kVersionAt = 9;     ///< u64
inline constexpr std::size_t kDtypeAt = 17;      ///< u8
inline constexpr std::size_t kSequencesAt = 18;  ///< u64
inline constexpr std::size_t kDocumentsAt = 26;  ///< u64: documents + 1
inline constexpr std::size_t kHeaderBytes = 34;
// The header is followed by an int32 length and an int64 offset into the .bin for each sequence, an
// int64 first sequence for each document with a closing entry, and in multimodal files an int8 mode
// for each sequence.
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kOffsetBytes = 8;
inline constexpr std::size_t kDocumentBytes = 8;

}  // namespace slimpack::indexed_format
