#include "slimpack/packflow/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "slimpack/base/threads.h"
#include "slimpack/cost/fit.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/packflow/profile/kept_measurements.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile_parts.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {
namespace {

/// Changes with the quantities that the parts measure and with the form in which they are kept.
constexpr int kProfileVersion = 4;

struct EdgeTimes {
  EdgeTime forward, backward;
};

EdgeTimes run_edge(const ProfileOptions& options, const ProfileRank& rank, PartBench::Part part) {
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

/// Keeps what it finds.
EdgeTimes measure_edge(const ProfileOptions& options, const ProfileRank& rank, PartBench::Part part,
                       const std::string& name) {
  const std::vector<double> f = options.figures_of(name, rank.first(), [&] {
    const EdgeTimes t = run_edge(options, rank, part);
    return std::vector<double>{t.forward.per_pack, t.forward.per_token, t.backward.per_pack,
                               t.backward.per_token};
  });
  return {{f.at(0), f.at(1)}, {f.at(2), f.at(3)}};
}

double measure_optimizer(const ProfileOptions& options, const ProfileRank& rank) {
  PartBench bench(options, rank, PartBench::Part::kLayer);
  const auto update = [&] {
    const std::span stage(&bench.parameters(), 1);
    static_cast<void>(squared_gradient_norm(stage));
    adamw_update(stage, TrainConfig{}, 0, 1.0);
    static_cast<void>(finite_values(stage));
    zero_gradients(stage);
  };
  update();
  return static_cast<double>(rank.mean(rank.time_of(update)).count()) /
         static_cast<double>(parameter_count(bench.parameters()));
}

WorstFit worst_of(const LayerTimes& layer, const LayerFit& forward, const LayerFit& backward) {
  if (forward.errors.largest >= backward.errors.largest)
    return {layer.forward[forward.errors.worst], Pass::kForward, forward.errors.largest};
  return {layer.backward[backward.errors.worst], Pass::kBackward, backward.errors.largest};
}

/// The mean error of both passes, a share of the time; 0 if nothing was held out.
double held_out_error(const LayerTimes& layer, const LayerCosts& fitted) {
  if (layer.held_out_forward.empty()) return 0;
  const double forward = errors_of(fitted.forward, layer.held_out_forward).mean;
  const double backward = errors_of(fitted.backward, layer.held_out_backward).mean;
  return (forward + backward) / 2;
}

struct MeasuredModel {
  Costs cost;
  WorstFit worst;
};

Costs empty_costs(const ProfileOptions& options) {
  Costs cost;
  cost.shape = options.shape;
  cost.dtype = options.dtype;
  cost.tp = options.tp;
  return cost;
}

/// Measures a layer of the first kind, and fits its costs.
MeasuredModel measure_kind(const ProfileOptions& options, const ProfileRank& rank) {
  const LayerTimes layer = measure_layer(options, rank);
  const FittedTerms terms{.window = Tokens(options.shape.kinds.front().window),
                          .missing_rows = options.device.is_cpu()};
  const LayerFit forward = fit_layer_cost(layer.forward, terms);
  const LayerFit backward = fit_layer_cost(layer.backward, terms);
  Costs cost = empty_costs(options);
  cost.kinds.front().forward = forward.time;
  cost.kinds.front().backward = backward.time;
  measure_backward_parts(cost, options, rank);
  cost.origin.fit_error = std::max(forward.errors.largest, backward.errors.largest);
  cost.origin.held_out_error = held_out_error(layer, cost.kinds.front());
  return {cost, worst_of(layer, forward, backward)};
}

/// Measures a layer of each kind, and fits their costs. Errors are those of the worst fit.
MeasuredModel measure_layers(const ProfileOptions& options, const ProfileRank& rank) {
  MeasuredModel model{empty_costs(options), {}};
  Costs& cost = model.cost;
  cost.kinds.clear();
  for (std::size_t kind = 0; kind < options.shape.kinds.size(); ++kind) {
    const MeasuredModel one = measure_kind(options.of_kind(kind), rank);
    cost.kinds.push_back(one.cost.kinds.front());
    if (kind == 0 || one.cost.origin.fit_error > cost.origin.fit_error) model.worst = one.worst;
    CostOrigin& all = cost.origin;
    all.fit_error = std::max(all.fit_error, one.cost.origin.fit_error);
    all.held_out_error = std::max(all.held_out_error, one.cost.origin.held_out_error);
  }
  return model;
}

/// Measures the layers and the model's ends, and fits their costs.
MeasuredModel measure_model(const ProfileOptions& options, const ProfileRank& rank) {
  MeasuredModel model = measure_layers(options, rank);
  Costs& cost = model.cost;
  const auto [embedding_forward, embedding_backward] =
      measure_edge(options, rank, PartBench::Part::kEmbedding, "embedding");
  cost.ends.embedding_forward = embedding_forward;
  cost.ends.embedding_backward = embedding_backward;
  cost.ends.head_backward = measure_edge(options, rank, PartBench::Part::kHead, "head").backward;
  cost.optimizer_per_parameter =
      options
          .figures_of("optimizer", rank.first(),
                      [&] { return std::vector<double>{measure_optimizer(options, rank)}; })
          .at(0);
  return model;
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

std::string ProfileOptions::settings_text() const {
  const RankGrid g = grid();
  return fmt::format(
      "version {} context {} replicas {} tp {} merged {} exchange {} pinned {} clock {} "
      "deterministic {} processors {}",
      kProfileVersion, context.count(), g.replicas, g.tensor, most_merged, to_string(cp_comm_type),
      pin_threads, to_string(clock), deterministic, processors());
}

std::string ProfileOptions::job_text() const {
  const MeasuredOn here = measured_here(device);
  return fmt::format("{} {} device {} torch {} on {}",
                     decoder_to_json(shape, hugging_face_name(dtype)), settings_text(), here.device,
                     here.torch, here.processor);
}

std::vector<double> ProfileOptions::figures_of(
    const std::string& part, bool first,
    const std::function<std::vector<double>()>& measure) const {
  const std::string name = kept_kind + part;
  if (kept != nullptr)
    if (const auto* figures = kept->find(name)) return *figures;
  std::vector<double> figures = measure();
  if (kept != nullptr && first) kept->add(name, figures);
  return figures;
}

ProfileOptions ProfileOptions::of_kind(std::size_t kind) const {
  ProfileOptions own = *this;
  own.shape.kinds = {shape.kinds[kind]};
  own.shape.set_layers(shape.num_layers());
  own.budget = budget / std::ssize(shape.kinds);
  if (kind > 0) own.kept_kind = fmt::format("kind {} ", kind);
  return own;
}

Costs profile_costs(const ProfileOptions& options) {
  const Bytes memory = device_memory(options.device);
  auto [cost, worst] = on_profile_ranks<MeasuredModel>(
      options.grid(), options.threads(),
      [&](const ProfileRank& rank) { return measure_model(options, rank); });
  if (options.on_fit) options.on_fit(worst);
  cost.origin.source = source_of(options);
  cost.device.memory = memory / options.sharing;
  cost.device.gpu = options.gpu;
  cost.cp_comm_type = options.cp_comm_type;
  cost.origin.measured_on = measured_here(options.device);
  if (!options.job) cost.origin.measured_for = options.settings_text();
  measure_exchanges(options, cost);
  return cost;
}

}  // namespace slimpack
