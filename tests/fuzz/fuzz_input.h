// Helpers of the fuzzing programs: inputs as text and as files, refusals, and properties.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack::fuzz {

/// Ends the program, which libFuzzer reports, unless the property holds.
inline void require(bool holds, std::string_view property) {
  if (holds) return;
  fmt::print(stderr, "broken property: {}\n", property);
  std::abort();
}

/// The result of `read`; nothing where it refuses the input, in one line. Any other exception is a
/// finding: nobody catches it.
template <class Read>
auto accepted(const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const InvalidInput& e) {
    const std::string_view message = e.what();
    require(!message.empty() && message.find('\n') == std::string_view::npos,
            "a refusal is one line");
    return std::nullopt;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// An input that is two files: four bytes (little-endian) with the size of the first, or more than
/// is there for all of it; the first; the second.
struct TwoFiles {
  std::string_view first;
  std::string_view second;
};

inline TwoFiles two_files(const std::uint8_t* data, std::size_t size) {
  std::uint32_t first = 0;
  if (size < sizeof first) return {};
  std::memcpy(&first, data, sizeof first);
  const std::string_view rest = text_of(data, size).substr(sizeof first);
  return {rest.substr(0, first), rest.substr(std::min<std::size_t>(first, rest.size()))};
}

}  // namespace slimpack::fuzz
