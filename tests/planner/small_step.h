// Random steps for the model of small_cost.h.
#pragma once

#include <algorithm>

#include "slimpack/base/random.h"
#include "tests/support/plan_request.h"
#include "tests/support/small_cost.h"

namespace slimpack::testing {

/// Up to 24 sequences, most of them short, few of them long.
inline PlanRequest random_request(Rng& rng) {
  PlanRequest request;
  request.lengths.resize(1 + rng.below(24));
  for (Tokens& length : request.lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{16} << rng.below(9))));
  request.pp = 1 + static_cast<std::int32_t>(rng.below(4));
  request.granularity = Tokens(16 << rng.below(3));
  request.context = *std::max_element(request.lengths.begin(), request.lengths.end());
  return request;
}

/// A random request for up to four replicas, which may run sequences together.
inline PlanRequest random_replicas(Rng& rng) {
  PlanRequest request = random_request(rng);
  request.dp = 1 + static_cast<std::int32_t>(rng.below(4));
  request.most_merged = request.dp > 1 && rng.below(2) == 0 ? 2 : 1;
  return request;
}

inline Bytes highest(const std::vector<Bytes>& by_stage) {
  return *std::max_element(by_stage.begin(), by_stage.end());
}

}  // namespace slimpack::testing
