// Cost models and requests that the tests of the baselines share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"

namespace slimpack::testing {

/// Round coefficients; groups of 2 and 4 replicas can merge.
inline Costs round_cost() {
  Costs cost;
  cost.shape = small_gqa();
  cost.shape.set_layers(4);
  cost.kinds.front().forward = {1000, 10, 20, 1, 0.5};
  cost.kinds.front().backward = {2000, 20, 40, 2.5, 1};
  cost.ends.embedding_forward = {100, 5};
  cost.ends.embedding_backward = {200, 7};
  cost.ends.head_backward = {400, 11};
  cost.transfer.latency = 50;
  cost.transfer.per_byte = 0.5;
  cost.kinds.front().merge = {{{100, 1}, {100, 2}}, {{150, 1.5}, {150, 3}}};
  return cost;
}

inline SequenceLengths tokens(const std::vector<std::int64_t>& lengths) {
  SequenceLengths result;
  for (const std::int64_t n : lengths) result.emplace_back(n);
  return result;
}

inline std::vector<SequenceId> ids(const std::vector<int>& values) {
  std::vector<SequenceId> out;
  for (const int value : values) out.emplace_back(value);
  return out;
}

/// One layer on each of so many stages.
inline StageLayout one_layer_each(std::int32_t stages) {
  StageLayout layout;
  for (std::int32_t s = 0; s <= stages; ++s) layout.layer_begin.push_back(s);
  return layout;
}

inline Job job_of(const StageLayout& layout, std::int32_t replicas, Tokens context) {
  return {.layout = layout, .replicas = replicas, .context = context};
}

inline BaselineInput input_of(const Job& job, const SequenceLengths& lengths, const Costs& cost,
                              const Tuning& tuning = {}) {
  return {stage_table(cost, job.layout, {}, {job.replicas, job.speed}), job.context, lengths,
          tuning};
}

/// The plan of a baseline, as published unless tuned.
inline BaselinePlan made_by(std::string_view name, const Job& job, const SequenceLengths& lengths,
                            const Costs& cost, const Tuning& tuning = {}) {
  return baseline_plan(baseline_named(name), input_of(job, lengths, cost, tuning));
}

/// Sequences of every pack, in order.
inline std::vector<std::vector<int>> members(const std::vector<MicroPack>& packs) {
  std::vector<std::vector<int>> result;
  for (const MicroPack& pack : packs) {
    result.emplace_back();
    for (const Slice& slice : pack.slices) result.back().push_back(slice.sequence.value());
  }
  return result;
}

}  // namespace slimpack::testing
