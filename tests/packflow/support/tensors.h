// Random fp64 tensors, their distance, and numerical differentiation: the oracle of every backward.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack::testing {

inline at::Tensor random_tensor(Rng& rng, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(rng.next()), at::kDouble);
}

inline Parameter random_parameter(Rng& rng, at::IntArrayRef sizes) {
  Parameter p;
  p.value = random_tensor(rng, sizes);
  p.gradient = at::zeros(sizes, at::kDouble);
  return p;
}

/// Largest difference over the largest magnitude of `expected` (at least 1e-30).
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes()) return 1e300;
  if (actual.numel() == 0) return 0;
  const double scale = expected.abs().max().item<double>();
  return (actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>() /
         std::max(scale, 1e-30);
}

/// d loss / d x by central differences; x is restored. Error about 1e-9 for smooth losses of
/// order 1: 1e-16 / 1e-6 of rounding and (1e-5)² of truncation.
inline at::Tensor numerical_gradient(const at::Tensor& x, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  at::Tensor gradient = at::zeros(x.sizes(), at::kDouble);
  auto* const values = x.mutable_data_ptr<double>();
  auto* const out = gradient.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double value = values[i];
    values[i] = value + kStep;
    const double above = loss();
    values[i] = value - kStep;
    const double below = loss();
    values[i] = value;
    out[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

inline double inner_product(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum().item<double>();
}

/// 0 = cuts[0] < … < cuts.back() = length.
inline std::vector<std::int64_t> random_cuts(Rng& rng, std::int64_t length) {
  std::vector<std::int64_t> cuts{0};
  while (cuts.back() < length)
    cuts.push_back(
        cuts.back() + 1 +
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(length - cuts.back()))));
  return cuts;
}

}  // namespace slimpack::testing
