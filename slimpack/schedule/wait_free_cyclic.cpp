// Steps, cycle by cycle until every stage has run everything: each stage runs its next backward and
// its next forward if the stages before had run them when the cycle began.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// The packs that a stage has run in each pass.
struct Progress {
  std::size_t forward = 0;
  std::size_t backward = 0;
  std::int64_t held = 0;  ///< weights of the packs between
};

}  // namespace

Schedule wait_free_cyclic(std::span<const std::int64_t> weights, int stages, std::int64_t limit) {
  SLIMPACK_CHECK(stages >= 1);
  Schedule schedule;
  schedule.ranks.resize(static_cast<std::size_t>(stages));
  std::vector<Progress> ran(schedule.ranks.size());
  while (ran.front().backward < weights.size()) {
    const std::vector<Progress> before = ran;
    for (std::size_t s = 0; s < ran.size(); ++s) {
      Progress& own = ran[s];
      const std::size_t arrived = s == 0 ? weights.size() : before[s - 1].forward;
      const std::size_t returned = s + 1 == ran.size() ? before[s].forward : before[s + 1].backward;
      const auto run = [&](Pass pass, std::size_t pack) {
        schedule.ranks[s].push_back({StageId(s), pass, PackId(pack)});
      };
      if (own.backward < returned) {
        run(Pass::kBackward, own.backward);
        own.held -= weights[own.backward++];
      }
      if (own.forward == arrived) continue;
      const std::int64_t weight = weights[own.forward];
      if (own.backward < own.forward && own.held + weight > limit) continue;
      run(Pass::kForward, own.forward);
      own.held += weight;
      ++own.forward;
    }
  }
  return schedule;
}

}  // namespace slimpack
