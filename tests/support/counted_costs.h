// Costs of a small model under autograd, whose sums can be done in the head.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/cost/cost_model.h"

namespace slimpack::testing {

/// The kinds of layers are numbered as they come. Layers of the first kind see everything, layers
/// of the second a window of 3 tokens. fp32, hidden size 4: a row has 16 bytes.
inline Costs counted_costs(std::vector<std::uint8_t> kind_of_layer) {
  Costs cost;
  cost.origin.source = "made up";
  cost.shape.vocab_size = 10;
  cost.shape.max_positions = Tokens(1 << 20);
  cost.shape.kind_of_layer = std::move(kind_of_layer);
  cost.shape.edges = {.before = 40, .after = 44, .shared = 40};
  cost.shape.config = R"({"model_type":"unheard_of","vocab_size":10})";
  LayerShape layer{
      .hidden_size = 4, .num_heads = 1, .num_kv_heads = 1, .head_dim = 4, .value_dim = 4};
  layer.counted_parameters = 100;
  layer.counted_weights = 90;
  cost.shape.kinds = {layer};
  cost.kinds.front().forward.per_token = 10;
  cost.kinds.front().backward.per_token = 30;
  AutogradLayer own{.whole = {.forward = {.per_token = 11},
                              .backward = {.per_token = 19},
                              .bytes = {.per_token = 100, .per_prefix_token = 8},
                              .backward_peak = {.per_token = 30}},
                    .elementwise = {.forward = {.per_token = 12},
                                    .backward = {.per_token = 22},
                                    .bytes = {.per_token = 60},
                                    .backward_peak = {.per_token = 80}},
                    .forward_peak = {.per_token = 50},
                    .kv_bytes = 8};
  cost.autograd = {.layers = {own},
                   .stage = {},
                   .head_peak = {.per_token = 20},
                   .state = {.weights = 4, .gradients = 4, .optimizer = 8}};
  if (std::ranges::count(cost.shape.kind_of_layer, 1) > 0) {
    cost.shape.kinds.push_back(layer);
    cost.shape.kinds[1].window = 3;
    LayerCosts& times = cost.kinds.emplace_back(LayerCosts(cost.kinds.front()));
    cost.autograd->layers.push_back(own);
    AutogradLayer& windowed = cost.autograd->layers[1];
    for (PackCost* of : {&times.forward, &times.backward, &windowed.forward_peak})
      of->window = Tokens(3);
    for (KeptGraph* graph : {&windowed.whole, &windowed.elementwise})
      for (PackCost* of : {&graph->forward, &graph->backward, &graph->bytes, &graph->backward_peak})
        of->window = Tokens(3);
  }
  cost.optimizer_per_parameter = 2;
  cost.transfer.latency = 5;
  cost.transfer.per_byte = 0.5;
  return cost;
}

}  // namespace slimpack::testing
