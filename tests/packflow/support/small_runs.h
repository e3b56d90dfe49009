// Small models, and steps for them cut by the solver or packed: what tests of whole steps run.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/solver/fluid_cut.h"
#include "tests/support/bound_costs.h"
#include "tests/support/list_schedule.h"
#include "tests/support/packed_plan.h"
#include "tests/support/random_split.h"

namespace slimpack::testing {

/// Grouped keys; on demand q/k norms and a query width that differs from the hidden size (Qwen3).
inline Decoder small_shape(std::int64_t layers, bool qk_norm = false) {
  Decoder shape;
  shape.family = qk_norm ? ModelFamily::kQwen3 : ModelFamily::kLlama;
  shape.kinds = {{.hidden_size = qk_norm ? 32 : 48,
                  .num_heads = 6,
                  .num_kv_heads = 2,
                  .head_dim = 8,
                  .value_dim = 8,
                  .qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone,
                  .dense_width = 56}};
  shape.set_layers(layers);
  shape.vocab_size = 61;
  shape.max_positions = Tokens(4096);
  return shape;
}

/// The policies that a CPU can run: all but kOffload, as its rows are in host memory in any case.
inline std::vector<Recompute> recomputations_of_cpu() {
  std::vector<Recompute> all(all_recomputations().begin(), all_recomputations().end());
  std::erase(all, Recompute::kOffload);
  return all;
}

/// A step with everything that it needs but tensors.
struct SmallStep {
  Costs cost;  ///< before recomputation
  StepPlan plan;
  Schedule schedule;

  [[nodiscard]] const PackPlan& packs() const { return plan.replicas.front().packs; }
  [[nodiscard]] TaskBytes bytes() const {
    return task_bytes(with_recompute(cost, plan.recompute), plan.layout, packs(), plan.lengths);
  }
  [[nodiscard]] TaskTimes times() const {
    return task_times(with_recompute(cost, plan.recompute), plan.layout, packs());
  }
  [[nodiscard]] Tokens longest() const { return *std::ranges::max_element(plan.lengths); }
};

inline SmallStep empty_step(const Decoder& shape, Dtype dtype, std::int32_t pp,
                            const SequenceLengths& lengths) {
  SmallStep step;
  step.cost = cost_from_hardware(shape, dtype, HardwareSpec{});
  step.plan.lengths = lengths;
  step.plan.layout = balanced_layout(step.cost, lengths, pp);
  ReplicaPlan& replica = step.plan.replicas.emplace_back();
  replica.sequences = all_sequences(lengths);
  return step;
}

/// `packs` MicroPacks per pass, cut at multiples of `granularity`, under the modified 1F1B.
inline SmallStep sliced_step(const Decoder& shape, Dtype dtype, std::int32_t pp,
                             const SequenceLengths& lengths, int packs, Tokens granularity,
                             RecomputeByLayer recompute = {}) {
  SmallStep step = empty_step(shape, dtype, pp, lengths);
  step.plan.recompute = std::move(recompute);
  ReplicaPlan& replica = step.plan.replicas.front();
  const auto time = [&](Pass pass) {
    return stage_cost(RecomputingCosts{step.cost}, step.plan.layout, StageId(0), pass);
  };
  replica.packs =
      fluid_cut(lengths, fluid_order(lengths, replica.sequences, 1), time(Pass::kForward),
                time(Pass::kBackward), {.packs = packs, .granularity = granularity});
  step.schedule = *list_schedule(replica.packs, step.times(), step.bytes());
  return step;
}

/// Whole sequences in packs of `capacity` tokens under plain 1F1B.
inline SmallStep packed_step(const Decoder& shape, Dtype dtype, std::int32_t pp,
                             const SequenceLengths& lengths, Tokens capacity,
                             RecomputeByLayer recompute = {}) {
  SmallStep step = empty_step(shape, dtype, pp, lengths);
  step.plan.recompute = std::move(recompute);
  ReplicaPlan& replica = step.plan.replicas.front();
  replica.packs = packed_plan(lengths, replica.sequences, capacity);
  step.schedule = one_f_one_b(replica.packs, pp);
  return step;
}

/// Lists the step's schedule again with backward packs split from `from` on where `caps` allow it.
/// REQUIRES: no cap below least_memory.
inline void split_backwards(SmallStep& step, std::int32_t from,
                            const std::vector<Bytes>& caps = {}) {
  const TaskTimes times = step.times();
  const TaskBytes bytes = step.bytes();
  const ReplicaPacks replica{step.packs(), times, bytes};
  step.schedule = ListScheduler(std::span(&replica, 1)).run(caps, {.split_from = from})->schedule;
}

/// Splits some backwards anywhere; weight gradients run at random moments after.
inline void split_randomly(SmallStep& step, Rng& rng) {
  std::vector<Schedule> schedules{std::move(step.schedule)};
  split_some(rng, step.plan, schedules);
  step.schedule = std::move(schedules.front());
}

inline StepTokens random_tokens(Rng& rng, const Decoder& shape, const SequenceLengths& lengths) {
  std::vector<std::vector<std::int64_t>> sequences;
  for (const Tokens length : lengths) {
    auto& sequence = sequences.emplace_back(static_cast<std::size_t>(length.count()));
    for (std::int64_t& token : sequence)
      token = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(shape.vocab_size)));
  }
  return make_step_tokens(sequences, shape.vocab_size);
}

inline EngineOptions engine_options(const SmallStep& step, std::uint64_t seed = 1) {
  EngineOptions options;
  options.shape = step.cost.shape;
  options.dtype = step.cost.dtype;
  options.layout = step.plan.layout;
  options.context = step.longest();
  options.seed = seed;
  return options;
}

}  // namespace slimpack::testing
