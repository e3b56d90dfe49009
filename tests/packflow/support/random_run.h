// Random steps of several replicas and tensor-parallel ranks with a model and tokens, ready to run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/packflow/step/engine.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/schedule/ticks.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"

namespace slimpack::testing {

struct RandomRun {
  /// `plan` with two layers on every stage, under random schedules, some of its backwards split.
  RandomRun(Rng& rng, StepPlan step_plan, std::int32_t tensor_ranks)
      : plan(std::move(step_plan)),
        schedules(RandomOrders(rng, plan, kChannelSlots).draw()),
        shape(small_shape(2 * plan.layout.stages(), rng.below(2) == 0)),
        tensor(tensor_ranks) {
    shape.tie_embeddings = rng.below(2) == 0;
    // Four ranks share one or two key/value heads.
    shape.kinds[0].num_heads = 4;
    shape.kinds[0].num_kv_heads = 1 + static_cast<std::int64_t>(rng.below(2));
    if (rng.below(2) == 0) {
      shape.family = ModelFamily::kLlama;
      shape.kinds[0].qk_norm = QkNorm::kNone;
      shape.kinds[0].qkv_bias = shape.kinds[0].output_bias = shape.kinds[0].mlp_bias = true;
    }
    if (rng.below(2) == 0) split_some(rng, plan, schedules);
    schedules = with_vocabulary(plan, std::move(schedules));
    const std::vector<Recompute> policies = recomputations_of_cpu();
    if (rng.below(2) == 0)
      for (std::int64_t l = 0; l < shape.num_layers(); ++l)
        plan.recompute.push_back(policies[rng.below(policies.size())]);
    tokens = random_tokens(rng, shape, plan.lengths);
  }

  /// Lets ranks of a pipeline exchange attention.
  void exchange_context() {
    const auto exchanges = context_exchanges(plan, schedules);
    for (std::size_t r = 0; r < exchanges.size(); ++r) schedules[r].exchanges = exchanges[r];
    exchanges_context = true;
  }

  [[nodiscard]] EngineOptions options(Dtype dtype) const {
    EngineOptions options;
    options.shape = shape;
    options.dtype = dtype;
    options.layout = plan.layout;
    options.replicas = static_cast<std::int32_t>(plan.replicas.size());
    options.tensor = tensor;
    options.exchange_context = exchanges_context;
    options.context = *std::ranges::max_element(plan.lengths);
    options.seed = 3;
    return options;
  }

  [[nodiscard]] StepResult run(Engine& engine,
                               const std::optional<OptimizerUpdate>& update = std::nullopt) const {
    return engine.run(plan, lower(plan, schedules), tokens, update);
  }

  StepPlan plan;
  std::vector<Schedule> schedules;
  Decoder shape;
  std::int32_t tensor = 1;
  bool exchanges_context = false;
  StepTokens tokens;
};

/// Up to three pipeline ranks with up to three stages each, five replicas and four tensor-parallel
/// ranks.
inline RandomRun random_run(Rng& rng) {
  const auto ranks = 1 + static_cast<std::int32_t>(rng.below(3));
  const std::int32_t stages_per_rank =
      ranks > 1 && rng.below(3) == 0 ? 2 + static_cast<std::int32_t>(rng.below(2)) : 1;
  StepPlan plan =
      random_step(rng, ranks * stages_per_rank, MergedAt::kAnywhere,
                  std::array{Zoning::kWhole, Zoning::kZones, Zoning::kRemapped}[rng.below(3)]);
  const bool vee = stages_per_rank > 1 && rng.below(2) == 0;
  plan.layout.placement =
      vee ? vee_placement(ranks, stages_per_rank) : StagePlacement::looped(ranks, stages_per_rank);
  plan.layout.spread_vocabulary = ranks > 1 && !vee && rng.below(3) == 0;
  const std::int32_t tensor = 1 << rng.below(3);
  RandomRun run{rng, std::move(plan), tensor};
  if (ranks > 1 && rng.below(3) == 0) run.exchange_context();
  return run;
}

}  // namespace slimpack::testing
