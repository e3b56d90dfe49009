#include "apps/slimpack/configured_request.h"

#include <algorithm>
#include <bit>

namespace slimpack {

PlanRequest configured_request(const RunConfig& config, const CostModel& cost,
                               SequenceLengths lengths) {
  PlanRequest request;
  request.lengths = std::move(lengths);
  request.pp = config.parallel.pp;
  request.dp = config.parallel.dp;
  request.planner = config.plan.planner;
  request.granularity = config.plan.granularity;
  request.context = config.data.context;
  request.memory_cap = config.plan.memory_cap;
  const std::int32_t known = 1 << cost.merge.size();
  request.most_merged = static_cast<std::int32_t>(std::bit_floor(
      static_cast<unsigned>(std::min({config.plan.most_merged, config.parallel.dp, known}))));
  if (config.plan.recompute)
    request.recompute = {*config.plan.recompute};
  else
    request.recompute.assign(all_recomputations().begin(), all_recomputations().end());
  return request;
}

}  // namespace slimpack
