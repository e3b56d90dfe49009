#include "bench/sparse_attention/structured_heads.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace slimpack {
namespace {

constexpr std::int64_t kFrequencies = 7;
/// Dimensions that are no noise: the cosines', the sink's and the needles'.
constexpr std::int64_t kStructured = 2 * kFrequencies + 2;

at::Tensor noise(Rng& rng, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(rng.next()), at::kFloat);
}

/// How strongly a head follows each part: the most that the part adds to a score.
struct Weights {
  double sink, local, needles;
};

Weights weights_of(std::int64_t head) {
  constexpr Weights kKinds[] = {{11, 11, 2}, {12, 5, 4},  {10, 9, 8}, {8, 12, 0},
                                {12, 8, 10}, {11, 10, 6}, {9, 11, 4}, {4, 2, 1}};
  return kKinds[head % 8];
}

/// Cosines and sines of positions begin to end, whose products with each other are cosines of
/// distances: [end − begin, 2·kFrequencies], of length 1.
at::Tensor positions(std::int64_t begin, std::int64_t end) {
  const at::Tensor at_T1 = at::arange(begin, end, at::kDouble).unsqueeze(1);
  // From a period of 4 tokens to one of 16,384.
  const at::Tensor rates_1F =
      at::pow(4.0, at::arange(kFrequencies, at::kDouble).neg()).mul(std::acos(0.0)).unsqueeze(0);
  const at::Tensor angles = at_T1.mul(rates_1F);
  return at::cat({angles.cos(), angles.sin()}, 1)
      .div(std::sqrt(static_cast<double>(kFrequencies)))
      .to(at::kFloat);
}

}  // namespace

SliceTensors random_slice(Rng& rng, const HeadSizes& sizes, std::int64_t tokens,
                          std::int64_t queries, at::ScalarType type) {
  const auto keys = [&] { return noise(rng, {tokens, sizes.kv_heads, sizes.head_dim}).to(type); };
  return {noise(rng, {queries, sizes.heads, sizes.head_dim}).to(type), {keys(), keys()}};
}

SliceTensors structured_slice(Rng& rng, const HeadSizes& sizes, std::int64_t tokens,
                              std::int64_t queries, at::ScalarType type) {
  SliceTensors slice = random_slice(rng, sizes, tokens, queries, at::kFloat);
  at::Tensor& q = slice.q_TND;
  at::Tensor& k = slice.kv.k;
  k.narrow(2, 0, 2 * kFrequencies).copy_(positions(0, tokens).unsqueeze(1));
  at::Tensor sink = k.select(2, 2 * kFrequencies), needles = k.select(2, 2 * kFrequencies + 1);
  sink.fill_(0).narrow(0, 0, std::min<std::int64_t>(4, tokens)).fill_(1);
  needles.fill_(0);
  for (std::int64_t n = 0; n < tokens / 512; ++n)
    needles.select(0, static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(tokens))))
        .fill_(0.5 + rng.uniform());
  const double scale = std::sqrt(static_cast<double>(sizes.head_dim));
  // Variance 1 of the noise's score: its dimensions are fewer than the head's.
  q.narrow(2, kStructured, sizes.head_dim - kStructured)
      .mul_(scale / std::sqrt(static_cast<double>(sizes.head_dim - kStructured)));
  const at::Tensor own = positions(tokens - queries, tokens);
  for (std::int64_t head = 0; head < sizes.heads; ++head) {
    const Weights weights = weights_of(head);
    at::Tensor q_TD = q.select(1, head);
    q_TD.narrow(1, 0, 2 * kFrequencies).copy_(own.mul(weights.local * scale));
    q_TD.select(1, 2 * kFrequencies).fill_(weights.sink * scale);
    q_TD.select(1, 2 * kFrequencies + 1).fill_(weights.needles * scale);
  }
  return {q.to(type), {k.to(type), slice.kv.v.to(type)}};
}

}  // namespace slimpack
