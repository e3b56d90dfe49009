#include "slimpack/baselines/packed.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

// 1. Sequences by falling length, ties by id.
// 2. Each goes into the pack with the least room that is still enough (of equals, the oldest), or
//    opens a new pack.
PackPlan packed_plan(const SequenceLengths& lengths, const std::vector<SequenceId>& sequences,
                     Tokens capacity) {
  std::vector<SequenceId> order = sequences;
  std::sort(order.begin(), order.end(), [&](SequenceId a, SequenceId b) {
    return std::pair(lengths[b.index()], a) < std::pair(lengths[a.index()], b);
  });
  if (!order.empty() && lengths[order.front().index()] > capacity) {
    invalid_input(
        "sequence {} has {} tokens, but a pack holds {}; raise the context or cut the sequence",
        order.front().value(), lengths[order.front().index()].count(), capacity.count());
  }
  PackPlan plan;
  std::set<std::pair<Tokens, PackId>> room_of_packs;
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    SLIMPACK_CHECK(length >= Tokens(1));
    auto best = room_of_packs.lower_bound(std::pair(length, PackId()));
    if (best == room_of_packs.end()) {
      best = room_of_packs.emplace(capacity, PackId(plan.forward.size())).first;
      plan.forward.emplace_back();
    }
    const auto [room, pack] = *best;
    room_of_packs.erase(best);
    room_of_packs.emplace(room - length, pack);
    plan.forward[pack.index()].slices.push_back(Slice{id, Tokens(0), length});
  }
  plan.backward = plan.forward;
  return plan;
}

}  // namespace slimpack
