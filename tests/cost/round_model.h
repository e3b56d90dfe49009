// A cost model whose sums can be done in the head.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "tests/cost/shapes.h"

namespace slimpack::testing {

inline Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

/// Round coefficients, different from each other, so that every term shows in a sum.
inline Costs round_model() {
  Costs cost;
  cost.shape = small_gqa();
  cost.kinds.front().forward = {100, 10, 2, 1, 3};
  cost.kinds.front().backward = {200, 20, 4, 2, 6};
  cost.ends.embedding_forward = {1000, 5};
  cost.ends.embedding_backward = {2000, 7};
  cost.ends.head_backward = {4000, 11};
  cost.optimizer_per_parameter = 2;
  cost.transfer.latency = 50;
  cost.transfer.per_byte = 0.5;
  return cost;
}

/// round_model() with groups of two and four replicas, and with gradients reduced between replicas.
inline Costs round_model_of_replicas() {
  Costs cost = round_model();
  cost.kinds.front().merge = {{{30, 0.5}, {60, 1.5}}, {{40, 0.25}, {80, 0.75}}};
  cost.reduction.latency = 7;
  cost.reduction.per_byte = 0.25;
  return cost;
}

}  // namespace slimpack::testing
