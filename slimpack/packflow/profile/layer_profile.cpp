#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstddef>

#include "slimpack/base/error.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_parts.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {
namespace {

double work_of(const Decoder& shape, const ProfilePoint& p) {
  const Slice slice = p.slice(0);
  const Tokens window(shape.kinds.front().window);
  const double pairs = window > Tokens(0) ? slice.window_pairs(window) : slice.causal_pairs();
  double flops = 0;
  for (const Pass pass : kWholePasses)
    flops += layer_linear_flops(shape.kinds.front(), p.tokens, pass).count() +
             layer_attention_flops(shape.kinds.front(), pairs, pass).count();
  return flops * p.slices;
}

/// The work that a point may have, by the time that a small one takes.
double most_work(const std::vector<ProfilePoint>& grid, const ProfileOptions& options,
                 const ProfileRank& rank, PartBench& bench) {
  std::vector<ProfilePoint> by_work = grid;
  std::ranges::stable_sort(by_work, {},
                           [&](const ProfilePoint& p) { return work_of(options.shape, p); });
  const ProfilePoint small = by_work[by_work.size() / 4];
  static_cast<void>(bench.run(small));  // warms up
  const PassTimes t = bench.run(small);
  const Nanos taken = rank.mean(t.forward + t.backward);
  return static_cast<double>(options.most_of_a_point().count()) * work_of(options.shape, small) /
         static_cast<double>(taken.count());
}

void drop_heavier(std::vector<ProfilePoint>& grid, const Decoder& shape, double most) {
  std::erase_if(grid, [&](const ProfilePoint& p) { return work_of(shape, p) > most; });
}

/// A measured point as numbers: what KeptMeasurements keeps.
constexpr std::size_t kFigures = 8;

void add_figures(std::vector<double>& figures, const ProfilePoint& p, const RepeatedTimes& t,
                 bool held_out) {
  const auto count = [](auto value) { return static_cast<double>(value.count()); };
  figures.insert(figures.end(),
                 {count(p.tokens), count(p.prefix), static_cast<double>(p.slices), count(t.forward),
                  t.forward_spread, count(t.backward), t.backward_spread, held_out ? 1.0 : 0.0});
}

std::vector<double> measured_figures(const ProfileOptions& options, const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  std::vector<ProfilePoint> points = layer_grid(options);
  std::vector<ProfilePoint> held_out = held_out_grid(options);
  const double most = most_work(points, options, rank, bench);
  const auto lightest = std::ranges::min(
      points, {}, [&](const ProfilePoint& p) { return work_of(options.shape, p); });
  drop_heavier(points, options.shape, most);
  drop_heavier(held_out, options.shape, most);
  if (points.empty()) points.push_back(lightest);
  bench.heat(std::ranges::max(points, {},
                              [&](const ProfilePoint& p) { return work_of(options.shape, p); }));
  const std::size_t fitted = points.size();
  points.insert(points.end(), held_out.begin(), held_out.end());
  const std::vector<RepeatedTimes> times =
      bench.measure(points, options.budget / std::ssize(points));
  std::vector<double> figures;
  for (std::size_t i = 0; i < points.size(); ++i)
    add_figures(figures, points[i], times[i], i >= fitted);
  return figures;
}

}  // namespace

LayerTimes measure_layer(const ProfileOptions& options, const ProfileRank& rank) {
  const std::vector<double> figures =
      options.figures_of("layer", rank.first(), [&] { return measured_figures(options, rank); });
  SLIMPACK_CHECK(figures.size() % kFigures == 0);
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  LayerTimes times;
  for (auto f = figures.begin(); f != figures.end(); f += kFigures) {
    const bool held_out = f[7] != 0;
    const Tokens tokens(whole(f[0])), prefix(whole(f[1]));
    const auto slices = static_cast<int>(f[2]);
    (held_out ? times.held_out_forward : times.forward)
        .push_back({tokens, prefix, slices, Nanos(whole(f[3])), f[4]});
    (held_out ? times.held_out_backward : times.backward)
        .push_back({tokens, prefix, slices, Nanos(whole(f[5])), f[6]});
  }
  return times;
}

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
