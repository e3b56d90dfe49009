#include "slimpack/base/compressed_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

constexpr std::size_t kChecksum = 4;   // begins behind the mark
constexpr std::size_t kSize = 4 + 16;  // begins behind the checksum

RC_GTEST_PROP(CompressedText, IsTheSameTextAgain, (const std::string& text)) {
  RC_ASSERT(decompressed(compressed(text), "text") == text);
}

TEST(CompressedText, OfManyEqualLettersIsSmall) {
  const std::string text(1 << 20, 'a');
  const std::string bytes = compressed(text);
  EXPECT_LT(bytes.size(), text.size() / 100);
  EXPECT_EQ(decompressed(bytes, "text"), text);
}

TEST(CompressedText, IsRefusedWhereverItIsCutOff) {
  const std::string bytes = compressed("0F0,0F1,0B1,0B0");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_invalid_input([&] { (void)decompressed(bytes.substr(0, size), "plan of rank 0"); },
                         {"plan of rank 0"});
  expect_invalid_input([&] { (void)decompressed(bytes + "x", "plan"); }, {"truncated or damaged"});
}

TEST(CompressedText, IsRefusedWhereverAByteIsAnother) {
  const std::string whole = compressed("0F0,0F1,0B1,0B0");
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    expect_invalid_input([&] { (void)decompressed(bytes, "plan of rank 0"); }, {"plan of rank 0"});
  }
}

TEST(CompressedText, OfAnotherTextHasAnotherChecksum) {
  std::string bytes = compressed("0F0,0B0");
  bytes.replace(kChecksum, 16, compressed("0F1,0B0").substr(kChecksum, 16));
  expect_invalid_input([&] { (void)decompressed(bytes, "plan"); }, {"do not have their checksum"});
}

TEST(CompressedText, SaysNoSizeThatItCannotHave) {
  std::string bytes = compressed("0F0,0B0");
  bytes.replace(kSize, 16, "00ffffffffffffff");  // memory for it would not be had
  expect_invalid_input([&] { (void)decompressed(bytes, "plan"); }, {"cannot be as much text"});
  bytes.replace(kSize, 16, "000000000000000x");
  expect_invalid_input([&] { (void)decompressed(bytes, "plan"); }, {"do not say their size"});
}

}  // namespace
}  // namespace slimpack
