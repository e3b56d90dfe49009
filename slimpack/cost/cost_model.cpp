#include "slimpack/cost/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

void add(EdgeTime& sum, const EdgeTime& more, double times) {
  sum.per_pack += times * more.per_pack;
  sum.per_token += times * more.per_token;
}

/// The part of a MicroPack's time on a stage that is not a layer's: embedding, head, and the
/// uncovered transfer of the last layer's rows.
EdgeTime edge_time(const RecomputingCosts& cost, const StageLayout& layout, StageId s, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  EdgeTime edge;
  if (s.value() == 0) edge = backward ? cost.embedding_backward : cost.embedding_forward;
  const bool last = s.value() == layout.stages() - 1;
  if (last && backward) add(edge, cost.head_backward, 1);
  const auto last_layer = static_cast<std::size_t>(layout.layer_begin[s.index() + 1] - 1);
  if (recompute_of(cost.recompute, last_layer) == Recompute::kOffload)
    edge.per_token += uncovered_transfer(cost, pass, last);
  return edge;
}

/// The time that merging adds to a layer in which attention runs once.
EdgeTime merge_time(const Costs& cost, Pass pass, std::int32_t replicas) {
  if (replicas == 1) return {};
  const auto entry =
      static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(replicas))) - 1;
  if (entry >= cost.merge.size())
    invalid_input("the cost model knows merging of up to {} replicas, the plan merges {}; {}",
                  cost.merge.empty() ? 1 : 1 << cost.merge.size(), replicas,
                  "plan again with this cost model");
  return pass == Pass::kForward ? cost.merge[entry].forward : cost.merge[entry].backward;
}

/// The time of a stage's layers in one pass, and the time that merging adds to them.
struct StageLayers {
  PackCost time;
  EdgeTime exchange;
};

StageLayers layers_of(const RecomputingCosts& cost, const StageLayout& layout, StageId stage,
                      Pass pass, std::int32_t replicas) {
  StageLayers sum;
  add(sum.exchange, merge_time(cost, pass, replicas), layout.layers(stage));
  const auto counts = layers_by_recompute(cost, layout, stage);
  if (pass == Pass::kForward) {
    sum.time = layout.layers(stage) * cost.forward;
    const std::int32_t offloaded = counts[static_cast<std::size_t>(Recompute::kOffload)];
    sum.time.per_token += offloaded * exposed_transfer(cost, Pass::kForward);
    return sum;
  }
  for (const Recompute recompute : all_recomputations()) {
    const std::int32_t layers = counts[static_cast<std::size_t>(recompute)];
    if (layers == 0) continue;
    sum.time = sum.time + layers * backward_time(cost, recompute);
    if (attends_again(recompute))
      add(sum.exchange, merge_time(cost, Pass::kForward, replicas), layers);
  }
  return sum;
}

}  // namespace

PackCost stage_cost(const RecomputingCosts& cost, const StageLayout& layout, StageId stage,
                    Pass pass, std::int32_t replicas) {
  const auto [time, exchange] = layers_of(cost, layout, stage, pass, replicas);
  const EdgeTime edge = edge_time(cost, layout, stage, pass);
  return {.per_pack = time.per_pack + exchange.per_pack + edge.per_pack,
          .per_slice = time.per_slice,
          .per_token = (time.per_token + edge.per_token) / replicas + exchange.per_token,
          .per_pair = time.per_pair / replicas,
          .per_prefix_token = time.per_prefix_token / replicas};
}

StageLayout balanced_layout(const Costs& cost, const SequenceLengths& lengths,
                            std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers);
  if (stages < 1 || stages > layers) {
    invalid_input(
        "{} pipeline stages for a model of {} layers: every stage needs a layer; use 1 to {}",
        stages, layers, layers);
  }
  // 1. The work of one layer, and of each stage's edges, for these lengths.
  double layer_work = 0;
  for (const Tokens length : lengths) {
    const Slice whole{SequenceId(), Tokens(0), length};
    layer_work += cost.forward(whole) + cost.backward(whole);
  }
  const auto token_count = static_cast<double>(total_tokens(lengths).count());
  std::vector<double> edge_work(static_cast<std::size_t>(stages), 0.0);
  edge_work.front() +=
      (cost.embedding_forward.per_token + cost.embedding_backward.per_token) * token_count;
  edge_work.back() += cost.head_backward.per_token * token_count;

  // 2. Each stage gets one layer. Every further layer goes to the stage that is lightest with it.
  //    Layers are equal, so no exchange of layers can lower the largest load afterwards.
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

}  // namespace slimpack
