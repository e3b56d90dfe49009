#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

Schedule one_f_one_b(const PackPlan& packs, int stages) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && stages >= 1);
  const auto count = static_cast<std::int32_t>(packs.forward.size());
  Schedule schedule;
  for (std::int32_t s = 0; s < stages; ++s) {
    auto& actions = schedule.ranks.emplace_back();
    const std::int32_t ahead = std::min(stages - s - 1, count);
    for (std::int32_t f = 0; f < ahead; ++f)
      actions.push_back({StageId(s), Pass::kForward, PackId(f)});
    for (std::int32_t b = 0; b < count; ++b) {
      if (ahead + b < count) actions.push_back({StageId(s), Pass::kForward, PackId(ahead + b)});
      actions.push_back({StageId(s), Pass::kBackward, PackId(b)});
    }
  }
  return schedule;
}

}  // namespace slimpack
