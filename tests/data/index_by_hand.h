// A Megatron index laid out byte by byte, independently of slimpack/data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slimpack {

/// The low `bytes` bytes of `value`, least significant first.
inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
  return text;
}

/// Fields in the order of the file; each can be made wrong on its own.
struct IndexByHand {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t dtype = 4;  // int32
  std::uint64_t sequence_count = 0;
  std::uint64_t document_entries = 0;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> documents;
  std::string modes;

  [[nodiscard]] std::string bytes() const {
    std::string text = magic;
    text += little_endian(version, 8);
    text += little_endian(dtype, 1);
    text += little_endian(sequence_count, 8);
    text += little_endian(document_entries, 8);
    for (const auto length : lengths) text += little_endian(static_cast<std::uint32_t>(length), 4);
    for (const auto offset : offsets) text += little_endian(static_cast<std::uint64_t>(offset), 8);
    for (const auto first : documents) text += little_endian(static_cast<std::uint64_t>(first), 8);
    return text + modes;
  }
};

}  // namespace slimpack
