#include "slimpack/packflow/profile/profile.h"

#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "slimpack/cost/fit.h"
#include "slimpack/packflow/device/device_memory.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/layer/recompute_rows.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/packflow/profile/exchange_profile.h"
#include "slimpack/packflow/profile/pack_sizes.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {
namespace {

constexpr std::array kSmallSizes{Tokens(64), Tokens(512), Tokens(2048)};

double work_of(const ModelShape& shape, const ProfilePoint& p) {
  const Slice slice = p.slice(0);
  double flops = 0;
  for (const Pass pass : kWholePasses)
    flops += layer_linear_flops(layer_shape(shape), p.tokens, pass).count() +
             layer_attention_flops(layer_shape(shape), slice.causal_pairs(), pass).count();
  return flops * p.slices;
}

struct LayerTimes {
  std::vector<LayerMeasurement> forward, backward;
};

/// The points that take no longer than a point may; at least one.
std::vector<ProfilePoint> affordable(std::vector<ProfilePoint> grid, const ProfileOptions& options,
                                     const ProfileRank& rank, PartBench& bench) {
  const auto work = [&](const ProfilePoint& p) { return work_of(options.shape, p); };
  std::ranges::stable_sort(grid, {}, work);
  const ProfilePoint small = grid[grid.size() / 4];
  static_cast<void>(bench.run(small));  // warms up
  const PassTimes t = bench.run(small);
  const Nanos taken = rank.mean(t.forward + t.backward);
  const double most = static_cast<double>(options.most_of_a_point().count()) * work(small) /
                      static_cast<double>(taken.count());
  const auto rest = std::ranges::upper_bound(grid, most, {}, work);
  grid.erase(std::max(rest, grid.begin() + 1), grid.end());
  return grid;
}

LayerTimes measure_layer(const ProfileOptions& options, const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  const std::vector<ProfilePoint> grid = affordable(layer_grid(options), options, rank, bench);
  const std::vector<RepeatedTimes> measured =
      bench.measure(grid, options.budget / static_cast<std::int64_t>(grid.size()));
  LayerTimes times;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const ProfilePoint& p = grid[i];
    const RepeatedTimes& m = measured[i];
    times.forward.push_back({p.tokens, p.prefix, p.slices, m.forward, m.forward_spread});
    times.backward.push_back({p.tokens, p.prefix, p.slices, m.backward, m.backward_spread});
  }
  return times;
}

struct EdgeTimes {
  EdgeTime forward, backward;
};

EdgeTimes measure_edge(const ProfileOptions& options, const ProfileRank& rank,
                       PartBench::Part part) {
  PartBench bench(options, rank, part);
  std::vector<ProfilePoint> points;
  for (const Tokens tokens : linear_sizes(options, kSmallSizes))
    points.push_back({tokens, Tokens(0)});
  const std::vector<RepeatedTimes> times = bench.measure(points, options.budget / 60);
  std::vector<EdgeMeasurement> forward, backward;
  for (std::size_t i = 0; i < points.size(); ++i) {
    forward.push_back({points[i].tokens, times[i].forward});
    backward.push_back({points[i].tokens, times[i].backward});
  }
  return {fit_edge_time(forward).time, fit_edge_time(backward).time};
}

/// The part of a layer's backward that can be put off. It knows neither slices nor prefixes.
std::vector<EdgeMeasurement> measure_weight_gradients(const ProfileOptions& options,
                                                      const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  std::vector<EdgeMeasurement> times;
  for (const Tokens measured : linear_sizes(options, kSmallSizes)) {
    const auto run = [&] { return bench.run_weight_gradients({measured, Tokens(0)}); };
    times.push_back({measured, rank.mean(std::min({run(), run(), run()}))});
  }
  return times;
}

/// What backward computes again of a layer that keeps its matrix products: its two norms and
/// silu(gate) ⊙ up. Timed by itself, because the difference of two passes would drown in what a
/// shared machine adds to either.
std::vector<EdgeMeasurement> measure_elementwise(const ProfileOptions& options,
                                                 const ProfileRank& rank) {
  const auto type = tensor_options(options);
  const ModelShape part = tensor_parallel_part(options.shape, rank.tensor());
  std::vector<EdgeMeasurement> times;
  for (const Tokens measured : linear_sizes(options, kSmallSizes)) {
    const at::Tensor x_TH =
        at::randn({measured.count() / rank.tensor(), options.shape.hidden_size}, type);
    const BackwardRows rows{{}, {at::randn({measured.count(), 2 * part.intermediate_size}, type)}};
    const Nanos time = rank.fastest_of_three([&] {
      static_cast<void>(rms_normalize(x_TH, options.shape.rms_norm_eps));
      static_cast<void>(rms_normalize(x_TH, options.shape.rms_norm_eps));
      static_cast<void>(activation(rows));
    });
    times.push_back({measured, time});
  }
  return times;
}

/// Bounds the parts of backward that can be saved and that can wait. They are fitted separately,
/// and on small shapes noise decides which term a constant goes to. So both must fit into each term
/// of backward; the smaller part, far less than half of it, goes first.
void fit_parts_of_backward(Costs& cost, const ProfileOptions& options, const ProfileRank& rank) {
  PackCost room{.per_pack = cost.backward.per_pack / 2, .per_token = cost.backward.per_token / 2};
  const EdgeTime again = fit_part(measure_elementwise(options, rank), room).time;
  room.per_pack = cost.backward.per_pack - again.per_pack;
  room.per_token = cost.backward.per_token - again.per_token;
  cost.weight_gradient = fit_part(measure_weight_gradients(options, rank), room).time;
  const EdgeTime& weights = cost.weight_gradient;
  cost.elementwise = {std::min(again.per_pack, cost.backward.per_pack - weights.per_pack),
                      std::min(again.per_token, cost.backward.per_token - weights.per_token)};
}

double measure_optimizer(const ProfileOptions& options, const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  const auto update = [&] {
    const std::span stage(&bench.parameters(), 1);
    static_cast<void>(squared_gradient_norm(stage));
    adamw_update(stage, TrainConfig{}, 0, 1.0);
    zero_gradients(stage);
  };
  update();
  return static_cast<double>(rank.mean(rank.time_of(update)).count()) /
         static_cast<double>(parameter_count(bench.parameters()));
}

WorstFit worst_of(const LayerTimes& layer, const Fit<PackCost>& forward,
                  const Fit<PackCost>& backward) {
  if (forward.largest_error >= backward.largest_error)
    return {layer.forward[forward.worst], Pass::kForward, forward.largest_error};
  return {layer.backward[backward.worst], Pass::kBackward, backward.largest_error};
}

struct MeasuredModel {
  Costs cost;
  WorstFit worst;
};

/// Of the layers and the model's ends.
MeasuredModel measure_model(const ProfileOptions& options, const ProfileRank& rank) {
  const LayerTimes layer = measure_layer(options, rank);
  const auto forward = fit_layer_cost(layer.forward);
  const auto backward = fit_layer_cost(layer.backward);
  Costs cost;
  cost.shape = options.shape;
  cost.dtype = options.dtype;
  cost.tp = options.tp;
  cost.forward = forward.time;
  cost.backward = backward.time;
  fit_parts_of_backward(cost, options, rank);
  cost.fit_error = std::max(forward.largest_error, backward.largest_error);
  const EdgeTimes embedding = measure_edge(options, rank, PartBench::Part::kEmbedding);
  cost.embedding_forward = embedding.forward;
  cost.embedding_backward = embedding.backward;
  cost.head_backward = measure_edge(options, rank, PartBench::Part::kHead).backward;
  cost.optimizer_per_parameter = measure_optimizer(options, rank);
  return {cost, worst_of(layer, forward, backward)};
}

std::string source_of(const ProfileOptions& options) {
  const std::int32_t ranks = options.grid().ranks();
  const std::string tensor = options.tp == 1 ? "" : fmt::format(", tp {}", options.tp);
  if (options.job)
    return fmt::format("profile of this job, {} processes at once{}, {}", ranks, tensor,
                       to_string(options.dtype));
  return fmt::format("profile of this machine, {} thread{}{}, {}", ranks,
                     ranks == 1 ? "" : "s at once", tensor, to_string(options.dtype));
}

}  // namespace

Costs profile_costs(const ProfileOptions& options) {
  const Bytes memory = device_memory(options.device);
  auto [cost, worst] = on_profile_ranks<MeasuredModel>(
      options.grid(), options.threads(),
      [&](const ProfileRank& rank) { return measure_model(options, rank); });
  if (options.on_fit) options.on_fit(worst);
  cost.source = source_of(options);
  cost.memory = memory / options.sharing;
  cost.gpu = options.gpu;
  measure_exchanges(options, cost);
  return cost;
}

}  // namespace slimpack
