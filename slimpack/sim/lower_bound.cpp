#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

Nanos sum(const std::vector<Nanos>& times) {
  Nanos total;
  for (const Nanos time : times) total += time;
  return total;
}

/// Adds one stage and its hop to every pack's way.
void extend(std::vector<Nanos>& way, const std::vector<Nanos>& stage,
            const std::vector<Nanos>& transfer) {
  for (std::size_t p = 0; p < way.size(); ++p) way[p] += stage[p] + transfer[p];
}

Nanos cheapest(const std::vector<Nanos>& way) {
  return *std::min_element(way.begin(), way.end());
}

/// Longest chain that a backward pack ends: the forwards it needs on the first stage, the last of
/// them through the other stages, the pack back to the first stage. `forward_way` and
/// `backward_way` lead from the first stage to the last, hops included, the last stage's own time
/// not.
Nanos longest_chain(const PackPlan& packs, const TaskTimes& times,
                    const std::vector<Nanos>& forward_way, const std::vector<Nanos>& backward_way) {
  std::vector<Nanos> before(packs.forward.size() + 1);
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    before[f + 1] = before[f] + times.forward.front()[f];
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  Nanos longest;
  for (std::size_t b = 0; b < needed.size(); ++b) {
    const auto last = static_cast<std::size_t>(needed[b]) - 1;
    const Nanos through = before[last] + forward_way[last] + times.forward.back()[last];
    longest = std::max(longest, through + times.backward.back()[b] + backward_way[b]);
  }
  return longest;
}

struct Bounds {
  Nanos actions;                  ///< the last action, which is one of the first stage
  std::vector<Nanos> stage_ends;  ///< the last action of each stage
};

Bounds bounds_of(const PackPlan& packs, const TaskTimes& times) {
  Bounds bounds;
  if (packs.forward.empty()) return bounds;
  std::vector<Nanos> forward_way(packs.forward.size());
  std::vector<Nanos> backward_way(packs.backward.size());
  for (std::size_t s = 0; s < times.forward.size(); ++s) {
    bounds.stage_ends.push_back(cheapest(forward_way) + sum(times.forward[s]) +
                                sum(times.backward[s]));
    bounds.actions = std::max(bounds.actions, bounds.stage_ends.back() + cheapest(backward_way));
    if (s + 1 == times.forward.size()) break;
    extend(forward_way, times.forward[s], times.forward_transfer);
    extend(backward_way, times.backward[s], times.backward_transfer);
  }
  bounds.actions = std::max(bounds.actions, longest_chain(packs, times, forward_way, backward_way));
  return bounds;
}

}  // namespace

Nanos makespan_lower_bound(const PackPlan& packs, const TaskTimes& times) {
  const Nanos step_end = *std::max_element(times.step_end.begin(), times.step_end.end());
  const Bounds bounds = bounds_of(packs, times);
  Nanos reduced = bounds.actions + times.reduce.front();
  for (std::size_t s = 0; s < bounds.stage_ends.size(); ++s)
    reduced = std::max(reduced, bounds.stage_ends[s] + times.reduce[s]);
  return reduced + step_end;
}

Nanos actions_lower_bound(const PackPlan& packs, const TaskTimes& times) {
  return bounds_of(packs, times).actions;
}

}  // namespace slimpack
