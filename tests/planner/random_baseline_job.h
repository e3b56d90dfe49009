// Random jobs for baselines.
#pragma once

#include "slimpack/cost/abilities.h"
#include "tests/planner/small_step.h"

namespace slimpack::testing {

/// Up to 24 sequences on up to 4 stages of up to 8 replicas, of unlike speeds at times; layers
/// compute again one thing or what is best; packs hold more than the longest sequence at times, and
/// ranks of a pipeline may exchange attention.
inline PlanRequest random_baseline_job(Rng& rng) {
  PlanRequest request = random_request(rng);
  request.dp = 1 + static_cast<std::int32_t>(rng.below(8));
  request.most_merged = 1;
  while (2 * request.most_merged <= request.dp && rng.below(2) == 0) request.most_merged *= 2;
  request.context = request.context * (1 + static_cast<std::int64_t>(rng.below(3)));
  if (rng.below(2) == 0) request.granularity = Tokens(1 << rng.below(10));
  if (rng.below(3) == 0) request.recompute = abilities(small_cost()).recomputations;
  request.mixed_recompute = request.recompute.size() > 1 && rng.below(2) == 0;
  if (rng.below(4) == 0) request.backward = BackwardKind::kSplit;
  request.exchange_context = rng.below(2) == 0;
  if (rng.below(4) > 0) return request;
  for (std::int32_t r = 0; r < request.dp; ++r) {
    auto& stages = request.speed.emplace_back();
    for (std::int32_t s = 0; s < request.pp; ++s)
      stages.push_back(0.5 + 0.25 * static_cast<double>(rng.below(4)));
  }
  return request;
}

}  // namespace slimpack::testing
