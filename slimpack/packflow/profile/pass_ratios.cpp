#include "slimpack/packflow/profile/pass_ratios.h"

#include <ATen/ops/randn.h>

#include <algorithm>

#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {
namespace {

/// The most that a layer can take for a whole sequence four times as long, both passes together:
/// attention is quadratic in the length.
Nanos next_layer_time(const PassRatio& r) {
  return 16 * (r.attention_forward + r.attention_backward) +
         4 * (r.linear_forward + r.linear_backward);
}

std::vector<PassRatio> ratios_on(const ProfileOptions& options, const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  const LayerShape s = tensor_parallel_part(options.shape.kinds.front(), options.tp);
  const auto type = tensor_options(options);
  std::vector<PassRatio> ratios;
  for (Tokens tokens{256}; tokens <= options.context; tokens = tokens * 4) {
    const std::int64_t n = tokens.count();
    const at::Tensor q_TND = at::randn({n, s.num_heads, s.head_dim}, type);
    const at::Tensor kv = at::randn({n, s.num_kv_heads, s.head_dim}, type);
    AttentionResult result;
    const Nanos forward = rank.fastest_of_three([&] {
      result = attention_forward(q_TND, {kv, kv}, Tokens(0), s.window);
    });
    const Nanos backward = rank.fastest_of_three([&] {
      static_cast<void>(
          attention_backward(q_TND, q_TND, {kv, kv}, result, Tokens(0), {}, s.window));
    });
    const ProfilePoint whole{tokens, Tokens(0)};
    const PassTimes layer = bench.measure({&whole, 1}, options.budget / 10).front();
    const auto rest = [](Nanos all, Nanos attention) {
      return std::max(all - attention, Nanos(1));
    };
    ratios.push_back(
        {tokens, forward, backward, rest(layer.forward, forward), rest(layer.backward, backward)});
    if (next_layer_time(ratios.back()) > options.most_of_a_point()) break;
  }
  return ratios;
}

}  // namespace

std::vector<PassRatio> measure_pass_ratios(const ProfileOptions& options) {
  return on_profile_ranks<std::vector<PassRatio>>(
      options.grid(), options.threads(),
      [&](const ProfileRank& rank) { return ratios_on(options, rank); });
}

}  // namespace slimpack
