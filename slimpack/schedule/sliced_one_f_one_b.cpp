#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

// The last stage runs `in_flight` forwards ahead throughout the step: the most that any backward
// needs beyond one for each backward before it. Each stage is a constant number of forwards ahead
// of the next, never behind. So a forward never waits for a backward that comes after it, and the
// stages cannot wait for each other in a circle.
Schedule sliced_one_f_one_b(const PackPlan& packs, int stages, std::int32_t ahead_per_stage) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && stages >= 1 &&
                 ahead_per_stage >= 0);
  const auto count = static_cast<std::int32_t>(packs.forward.size());
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  std::int32_t in_flight = 0;
  for (std::int32_t b = 0; b < count; ++b)
    in_flight = std::max(in_flight, needed[static_cast<std::size_t>(b)] - b);
  Schedule schedule;
  for (std::int32_t s = 0; s < stages; ++s) {
    auto& actions = schedule.stages.emplace_back();
    const std::int32_t ahead = in_flight + ahead_per_stage * (stages - 1 - s);
    std::int32_t f = 0;
    for (std::int32_t b = 0; b < count; ++b) {
      while (f < std::min(ahead + b, count))
        actions.push_back({StageId(s), Pass::kForward, PackId(f++)});
      actions.push_back({StageId(s), Pass::kBackward, PackId(b)});
    }
  }
  return schedule;
}

}  // namespace slimpack
