#include "slimpack/base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace slimpack {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Checksum, IsXxh3) {
  // `xxhsum -H3` prints these for an empty file and for one that holds "abc".
  EXPECT_EQ(checksum_of({}), "2d06800538d394c2");
  EXPECT_EQ(checksum_of(bytes_of("abc")), "78af5f94892f3950");
}

TEST(Checksum, OfPartsIsThatOfTheWhole) {
  const std::string text(1000, 'x');
  for (const std::size_t step : {1, 7, 240, 999}) {
    Checksum parts;
    for (std::size_t at = 0; at < text.size(); at += step)
      parts.add(bytes_of(std::string_view(text).substr(at, std::min(step, text.size() - at))));
    EXPECT_EQ(parts.text(), checksum_of(bytes_of(text))) << step;
  }
}

TEST(Checksum, ChangesWithEveryBit) {
  std::string text(40, '\0');
  const std::string before = checksum_of(bytes_of(text));
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(checksum_of(bytes_of(text)), before) << bit;
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace slimpack
