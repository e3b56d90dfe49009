#include "slimpack/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

SliceCost slice_cost_of_layer(const LayerTime& layer) {
  return SliceCost{.per_slice = layer.per_slice,
                   .per_token = layer.per_token,
                   .per_pair = layer.per_pair,
                   .per_prefix_token = layer.per_prefix_token};
}

/// Parameters that stage `s` updates.
double stage_parameters(const ModelShape& shape, const StageLayout& layout, StageId s) {
  const bool first = s.value() == 0;
  const bool last = s.value() == layout.stages() - 1;
  const bool head_is_embedding = first && shape.tie_embeddings;
  std::int64_t count = layout.layers(s) * shape.layer_parameters();
  if (first) count += shape.embedding_parameters();
  if (last) count += shape.hidden_size + (head_is_embedding ? 0 : shape.embedding_parameters());
  return static_cast<double>(count);
}

/// Where a MicroPack's time on a stage comes from, apart from its layers.
EdgeTime edge_time(const CostModel& cost, const StageLayout& layout, StageId s, bool backward) {
  EdgeTime edge;
  const auto add = [&](const EdgeTime& e) {
    edge.per_pack += e.per_pack;
    edge.per_token += e.per_token;
  };
  if (s.value() == 0) add(backward ? cost.embedding_backward : cost.embedding_forward);
  if (s.value() == layout.stages() - 1 && backward) add(cost.head_backward);
  return edge;
}

Nanos rounded(double nanos) {
  return Nanos(std::llround(nanos));
}

/// [stage][pack]: the layers of all stages cost the same per layer, so a pack is summed up once.
std::vector<std::vector<Nanos>> pass_times(const CostModel& cost, const StageLayout& layout,
                                           const std::vector<MicroPack>& packs, bool backward) {
  const LayerTime& layer = backward ? cost.backward : cost.forward;
  const SliceCost time_in_layer = slice_cost_of_layer(layer);
  std::vector<double> layer_nanos;
  std::vector<double> tokens;
  for (const MicroPack& pack : packs) {
    double nanos = layer.per_pack;
    for (const Slice& slice : pack.slices) nanos += time_in_layer(slice);
    layer_nanos.push_back(nanos);
    tokens.push_back(static_cast<double>(pack.tokens().count()));
  }
  std::vector<std::vector<Nanos>> times(static_cast<std::size_t>(layout.stages()));
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const StageId stage(s);
    const EdgeTime edge = edge_time(cost, layout, stage, backward);
    auto& row = times[stage.index()];
    row.reserve(packs.size());
    for (std::size_t p = 0; p < packs.size(); ++p) {
      row.push_back(rounded(layout.layers(stage) * layer_nanos[p] + edge.per_pack +
                            edge.per_token * tokens[p]));
    }
  }
  return times;
}

std::vector<Nanos> transfer_times(const CostModel& cost, const std::vector<MicroPack>& packs) {
  const double token_bytes =
      static_cast<double>(cost.shape.hidden_size * element_bytes(cost.dtype));
  std::vector<Nanos> times;
  times.reserve(packs.size());
  for (const MicroPack& pack : packs) {
    const double bytes = token_bytes * static_cast<double>(pack.tokens().count());
    times.push_back(rounded(cost.transfer_latency + cost.transfer_per_byte * bytes));
  }
  return times;
}

}  // namespace

SliceCost slice_cost(const CostModel& cost, const StageLayout& layout, StageId stage,
                     bool backward) {
  const SliceCost layer = slice_cost_of_layer(backward ? cost.backward : cost.forward);
  const double layers = layout.layers(stage);
  const EdgeTime edge = edge_time(cost, layout, stage, backward);
  return SliceCost{.per_slice = layers * layer.per_slice,
                   .per_token = layers * layer.per_token + edge.per_token,
                   .per_pair = layers * layer.per_pair,
                   .per_prefix_token = layers * layer.per_prefix_token};
}

StageLayout balanced_layout(const CostModel& cost, const SequenceLengths& lengths,
                            std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers);
  if (stages < 1 || stages > layers) {
    invalid_input(
        "{} pipeline stages for a model of {} layers: every stage needs a layer; use 1 to {}",
        stages, layers, layers);
  }
  // 1. The work of one layer, and of each stage's edges, for these lengths.
  const SliceCost forward = slice_cost_of_layer(cost.forward);
  const SliceCost backward = slice_cost_of_layer(cost.backward);
  double layer_work = 0;
  for (const Tokens length : lengths) {
    const Slice whole{SequenceId(), Tokens(0), length};
    layer_work += forward(whole) + backward(whole);
  }
  const auto token_count = static_cast<double>(total_tokens(lengths).count());
  std::vector<double> edge_work(static_cast<std::size_t>(stages), 0.0);
  edge_work.front() +=
      (cost.embedding_forward.per_token + cost.embedding_backward.per_token) * token_count;
  edge_work.back() += cost.head_backward.per_token * token_count;

  // 2. One layer each; every further one to the stage that it leaves lightest. Layers are equal, so
  //    no exchange of layers can lower the largest load afterwards.
  std::vector<std::int32_t> count(edge_work.size(), 1);
  for (std::int32_t assigned = stages; assigned < layers; ++assigned) {
    const auto load_with_one_more = [&](std::size_t s) {
      return std::tuple(edge_work[s] + layer_work * (count[s] + 1), count[s], -static_cast<int>(s));
    };
    std::size_t lightest = 0;
    for (std::size_t s = 1; s < count.size(); ++s) {
      if (load_with_one_more(s) < load_with_one_more(lightest)) lightest = s;
    }
    ++count[lightest];
  }
  StageLayout layout{{0}};
  for (const std::int32_t n : count) layout.layer_begin.push_back(layout.layer_begin.back() + n);
  return layout;
}

TaskTimes task_times(const CostModel& cost, const StageLayout& layout, const PackPlan& packs) {
  TaskTimes times;
  times.forward = pass_times(cost, layout, packs.forward, false);
  times.backward = pass_times(cost, layout, packs.backward, true);
  times.forward_transfer = transfer_times(cost, packs.forward);
  times.backward_transfer = transfer_times(cost, packs.backward);
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    times.step_end.push_back(
        rounded(cost.optimizer_per_parameter * stage_parameters(cost.shape, layout, StageId(s))));
  }
  return times;
}

}  // namespace slimpack
