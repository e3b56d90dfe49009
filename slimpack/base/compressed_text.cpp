#include "slimpack/base/compressed_text.h"

#include <zlib.h>

#include <charconv>
#include <cstdint>
#include <span>

#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::string_view kMark = "SPZ1";
constexpr std::size_t kDigits = 16;  // of the checksum, and of the size
constexpr std::size_t kHead = kMark.size() + 2 * kDigits;
constexpr std::uint64_t kMostExpansion = 1032;  // of deflate, by its format

std::string checksum_of_text(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

const Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<const Bytef*>(text.data());
}

}  // namespace

std::string compressed(std::string_view text) {
  std::string bytes = fmt::format("{}{}{:016x}", kMark, checksum_of_text(text), text.size());
  uLong size = compressBound(text.size());
  bytes.resize(kHead + size);
  const int done = compress2(reinterpret_cast<Bytef*>(bytes.data() + kHead), &size, bytes_of(text),
                             text.size(), Z_BEST_SPEED);
  SLIMPACK_CHECK(done == Z_OK, "zlib says {}", done);
  bytes.resize(kHead + size);
  return bytes;
}

std::string decompressed(std::string_view bytes, std::string_view origin) {
  const auto refuse = [&](std::string_view why) {
    invalid_input("{}: {} bytes that {}; give what was written, whole", origin, bytes.size(), why);
  };
  if (bytes.size() < kHead || !bytes.starts_with(kMark)) refuse("are no compressed text");
  const std::string_view head = bytes.substr(kMark.size(), 2 * kDigits);
  const std::string_view body = bytes.substr(kHead);
  std::uint64_t size = 0;
  const auto [end, error] =
      std::from_chars(head.data() + kDigits, head.data() + head.size(), size, 16);
  if (error != std::errc() || end != head.data() + head.size()) refuse("do not say their size");
  if (size / kMostExpansion > body.size()) refuse("cannot be as much text as they say");
  std::string text(size, '\0');
  uLong got = size;
  uLong used = body.size();
  const int done = uncompress2(reinterpret_cast<Bytef*>(text.data()), &got, bytes_of(body), &used);
  if (done != Z_OK || got != size || used != body.size()) refuse("are truncated or damaged");
  if (checksum_of_text(text) != head.substr(0, kDigits)) refuse("do not have their checksum");
  return text;
}

}  // namespace slimpack
