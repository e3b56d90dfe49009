// Random jobs of several replicas for property tests of phase 1 and of the step bound.
#pragma once

#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/solver/step_bound.h"
#include "tests/support/bound_costs.h"

namespace slimpack::testing {

/// Up to 12 sequences, few of them long, on up to 8 replicas of up to 3 ranks with a stage or two
/// of a layer or two each; costs of the magnitude of a small model; groups of up to `most_merged`
/// replicas.
struct RandomJob : CutLimits {
  StageLayout layout;
  std::int32_t replicas = 1;
  std::vector<std::vector<double>> speed;
  RecomputingCosts cost;
  SequenceLengths lengths;

  [[nodiscard]] StageTable table() const {
    return stage_table(cost, layout, cost.recompute, {replicas, speed});
  }
};

/// A random time of a stage's layers, of which some may have this window; 0 = none has.
inline PackCost random_layer_time(Rng& rng, double scale, Tokens window) {
  const auto up_to = [&](double most) { return scale * most * rng.uniform(); };
  PackCost time{rng.below(3) == 0 ? 0 : up_to(3000), rng.below(3) == 0 ? 0 : up_to(1000),
                up_to(100), up_to(0.5), up_to(5)};
  if (window == Tokens(0)) return time;
  time.window = window;
  time.per_window_pair = up_to(0.5);
  time.per_window_prefix = up_to(5);
  if (rng.below(2) == 0) time.per_pair = time.per_prefix_token = 0;
  return time;
}

/// One to three ranks with one or two stages each, of one or two layers.
inline StageLayout random_layout(Rng& rng) {
  StageLayout layout{{0}};
  const auto ranks = 1 + static_cast<std::int32_t>(rng.below(3));
  if (ranks > 1 && rng.below(3) == 0) layout.placement = StagePlacement::looped(ranks, 2);
  for (std::int32_t stages = ranks * layout.placement.stages_per_rank(); stages > 0; --stages)
    layout.layer_begin.push_back(layout.layer_begin.back() + 1 +
                                 static_cast<std::int32_t>(rng.below(2)));
  layout.spread_vocabulary = ranks > 1 && rng.below(3) == 0;
  return layout;
}

inline RandomJob random_job(Rng& rng) {
  RandomJob job;
  Costs& cost = job.cost;
  LayerCosts& layer = cost.kinds.front();
  cost.shape.kinds = {{.hidden_size = 8,
                       .num_heads = 2,
                       .num_kv_heads = 2,
                       .head_dim = 4,
                       .value_dim = 4,
                       .dense_width = 16}};
  cost.shape.vocab_size = 10;
  const Tokens window(rng.below(2) == 0 ? 0 : 1 + static_cast<std::int64_t>(rng.below(200)));
  layer.forward = random_layer_time(rng, 1, window);
  layer.backward = random_layer_time(rng, 2, window);
  if (rng.below(2) == 0)
    layer.weight_gradient = {layer.backward.per_pack * rng.uniform(),
                             layer.backward.per_token * rng.uniform()};
  cost.ends.embedding_forward = {500 * rng.uniform(), 10 * rng.uniform()};
  cost.ends.head_backward = {500 * rng.uniform(), 50 * rng.uniform()};
  cost.optimizer_per_parameter = rng.uniform();
  cost.transfer.latency = 500 * rng.uniform();
  cost.transfer.per_byte = rng.uniform();
  cost.reduction.latency = 500 * rng.uniform();
  cost.reduction.per_byte = rng.uniform();
  for (int k = 0; k < 3; ++k)
    layer.merge.push_back(
        {{500 * rng.uniform(), 10 * rng.uniform()}, {500 * rng.uniform(), 20 * rng.uniform()}});
  job.layout = random_layout(rng);
  cost.shape.set_layers(job.layout.layer_begin.back());
  job.replicas = 1 + static_cast<std::int32_t>(rng.below(8));
  while (2 * job.most_merged <= job.replicas && rng.below(3) > 0) job.most_merged *= 2;
  job.granularity =
      Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{1} << rng.below(6))));
  job.lengths.resize(1 + rng.below(12));
  for (Tokens& length : job.lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{16} << rng.below(7))));
  if (rng.below(2) == 0)
    for (std::int32_t r = 0; r < job.replicas; ++r) {
      auto& speeds = job.speed.emplace_back();
      for (std::int32_t s = 0; s < job.layout.ranks(); ++s)
        speeds.push_back(0.3 + 1.5 * rng.uniform());
    }
  for (MergeTime& merge : layer.merge) {
    for (SliceTime* slice : {&merge.forward_slice, &merge.backward_slice}) {
      slice->per_slice = 100 * rng.uniform();
      (window > Tokens(0) ? slice->per_window_prefix : slice->per_prefix_token) = rng.uniform();
    }
    for (auto [travel, pass] : {std::pair(&merge.forward_travel, &layer.forward),
                                std::pair(&merge.backward_travel, &layer.backward)}) {
      const double most = window > Tokens(0) ? pass->per_window_pair : pass->per_pair;
      *travel = {rng.uniform(), rng.uniform(), rng.below(2) == 0 ? 0 : most * rng.uniform() / 8};
    }
  }
  cost.zero = 1 + static_cast<std::int32_t>(rng.below(3));
  return job;
}

}  // namespace slimpack::testing
