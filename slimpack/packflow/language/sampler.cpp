#include "slimpack/packflow/language/sampler.h"

#include <ATen/ops/argmax.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// Zeros whatever is less likely than the k-th.
void keep_top_k(std::vector<double>& p, std::int64_t k) {
  if (k <= 0 || k >= static_cast<std::int64_t>(p.size())) return;
  std::vector<double> sorted = p;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const double least = sorted[static_cast<std::size_t>(k - 1)];
  for (double& x : p)
    if (x < least) x = 0;
}

/// Sets to 0 the probabilities that the share `top_p` of all does not need, counted likeliest
/// first.
void keep_top_p(std::vector<double>& p, double top_p) {
  if (top_p >= 1) return;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) order.push_back(i);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return p[i]; });
  const double needed = top_p * std::accumulate(p.begin(), p.end(), 0.0);
  double sum = 0;
  for (const std::size_t i : order) {
    if (sum >= needed) p[i] = 0;
    sum += p[i];
  }
}

void keep_min_p(std::vector<double>& p, double min_p) {
  const double least = min_p * *std::ranges::max_element(p);
  for (double& x : p)
    if (x < least) x = 0;
}

}  // namespace

void SamplingSettings::require_sound() const {
  const auto require = [](bool sound, const char* name, auto value, const char* rule) {
    if (!sound) invalid_input("{} is {}, it must be {}", name, value, rule);
  };
  require(std::isfinite(temperature) && temperature >= 0, "temperature", temperature,
          "0 (the likeliest token) or more");
  require(top_k >= 0, "top-k", top_k, "0 (all tokens) or more");
  require(top_p > 0 && top_p <= 1, "top-p", top_p, "above 0 and at most 1 (all tokens)");
  require(min_p >= 0 && min_p <= 1, "min-p", min_p, "from 0 (all tokens) to 1");
}

TokenSampler::TokenSampler(const SamplingSettings& settings)
    : settings_(settings), rng_(settings.seed) {
  settings.require_sound();
}

std::int64_t TokenSampler::next(const at::Tensor& logits_V) {
  if (greedy()) return at::argmax(logits_V).item<std::int64_t>();
  return draw(probabilities(logits_V));
}

std::vector<double> TokenSampler::probabilities(const at::Tensor& logits_V) const {
  const at::Tensor logits = logits_V.to(at::kDouble).contiguous();
  const double* const l = logits.const_data_ptr<double>();
  std::vector<double> p(l, l + logits.numel());
  const double highest = *std::ranges::max_element(p);
  for (double& x : p) x = std::exp((x - highest) / settings_.temperature);
  keep_top_k(p, settings_.top_k);
  keep_top_p(p, settings_.top_p);
  keep_min_p(p, settings_.min_p);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

std::int64_t TokenSampler::draw(const std::vector<double>& weights) {
  const double at = rng_.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    sum += weights[i];
    last = static_cast<std::int64_t>(i);
    if (at < sum) break;
  }
  return last;  // sums round, so `at` may be no less than the last one
}

}  // namespace slimpack
