// NumPy columns that Python hands over: no copies, read-only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

template <class T>
using Column =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Lengths = Column<std::int64_t>;

[[nodiscard]] inline std::vector<Tokens> tokens_of(const Lengths& lengths) {
  std::vector<Tokens> tokens;
  tokens.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) tokens.emplace_back(lengths.data()[i]);
  return tokens;
}

}  // namespace slimpack
