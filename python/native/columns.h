// NumPy columns that Python hands over: no copies, read-only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/units.h"

namespace slimpack {

template <class T>
using Numbers =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Lengths = Numbers<std::int64_t>;

/// Throws InvalidInput unless each length is from `least` to what the files of datasets can hold.
[[nodiscard]] inline std::vector<Tokens> tokens_of(const Lengths& lengths, std::int64_t least = 0) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  std::vector<Tokens> tokens;
  tokens.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t length = lengths.data()[i];
    if (length < least || length > kLongest)
      invalid_input("lengths[{}] is {}, must be from {} to {}{}", i, length, least, kLongest,
                    length == 0 ? "; leave empty sequences out" : "");
    tokens.emplace_back(length);
  }
  return tokens;
}

}  // namespace slimpack
