// Regular orders: 1F1B and what follows from it, whatever the costs.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/folded_ranks.h"
#include "slimpack/schedule/memory_guard.h"
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

Schedule columned_one_f_one_b(const std::vector<std::int32_t>& columns, int stages) {
  std::vector<std::int32_t> pack_of(
      columns.empty() ? 0 : static_cast<std::size_t>(columns.back()) + 1, -1);
  for (std::size_t p = 0; p < columns.size(); ++p) {
    SLIMPACK_CHECK(p == 0 ? columns[p] >= 0 : columns[p] > columns[p - 1]);
    pack_of[static_cast<std::size_t>(columns[p])] = static_cast<std::int32_t>(p);
  }
  const PackPlan all{std::vector<MicroPack>(pack_of.size()),
                     std::vector<MicroPack>(pack_of.size())};
  Schedule schedule;
  for (const auto& actions : one_f_one_b(all, stages).ranks) {
    auto& own = schedule.ranks.emplace_back();
    for (const Action& action : actions)
      if (const std::int32_t pack = pack_of[action.pack.index()]; pack >= 0)
        own.push_back({action.stage, action.pass, PackId(pack)});
  }
  return schedule;
}

// The last rank runs `in_flight` forwards ahead throughout the step: the most that any backward
// needs beyond one for each backward before it. Each rank is a constant number of forwards ahead of
// the next, never behind. So a forward never waits for a backward that comes after it, and the
// ranks cannot wait for each other in a circle. With several stages a rank the first waits for the
// last, too: forward for the rows that the last has sent a round before, backward for slots. The
// first leads by 2 (p − 1) forwards. Two rounds are more than that, so it does not wait for what
// comes after its own backward; and less than that and the slots of both directions, so the two do
// not wait for each other's slots. Where there are no such rounds, all forwards run before the
// first backward.
Schedule sliced_one_f_one_b(const PackPlan& packs, int ranks, std::int32_t ahead_per_rank,
                            std::int32_t stages_per_rank) {
  SLIMPACK_CHECK(ranks >= 1 && ahead_per_rank >= 0 && stages_per_rank >= 1 &&
                 (stages_per_rank == 1 || ahead_per_rank == 2));
  const std::vector<std::int32_t> needed = running_needs(packs);
  const auto forwards = static_cast<std::int32_t>(packs.forward.size());
  const FoldedOrders orders(batches_of(needed, forwards, ranks), ranks, stages_per_rank);
  const std::vector<std::int32_t> folded = folded_needs(needed, orders, kChannelSlots).running;
  const auto count = static_cast<std::int32_t>(orders.forward.all().size());
  const auto backwards = static_cast<std::int32_t>(folded.size());
  std::int32_t in_flight = 0;
  for (std::int32_t b = 0; b < backwards; ++b)
    in_flight = std::max(in_flight, folded[static_cast<std::size_t>(b)] - b);
  if (stages_per_rank > 1 && !has_rounds(orders.forward.largest_round(), ranks)) in_flight = count;
  Schedule schedule;
  for (std::int32_t r = 0; r < ranks; ++r) {
    const std::int32_t ahead = in_flight + ahead_per_rank * (ranks - 1 - r);
    auto& actions = schedule.ranks.emplace_back();
    std::int32_t f = 0;
    for (std::int32_t b = 0; b < backwards; ++b) {
      for (; f < std::min(ahead + b, count); ++f)
        actions.push_back({StageId(r), Pass::kForward, PackId(f)});
      actions.push_back({StageId(r), Pass::kBackward, PackId(b)});
    }
  }
  return unfolded(schedule, orders);
}

Schedule split_backwards(const Schedule& schedule) {
  Schedule split;
  for (std::size_t s = 0; s < schedule.ranks.size(); ++s) {
    auto& actions = split.ranks.emplace_back();
    std::size_t sent = 0;      // input gradients
    std::size_t computed = 0;  // weight gradients
    const auto weights_of_next = [&] {
      actions.push_back({StageId(s), Pass::kWeightGradient, PackId(computed++)});
    };
    for (const Action& action : schedule.ranks[s]) {
      SLIMPACK_CHECK(action.pass == Pass::kForward || action.pass == Pass::kBackward);
      if (action.pass == Pass::kForward) {
        actions.push_back(action);
        continue;
      }
      actions.push_back({action.stage, Pass::kInputGradient, action.pack});
      if (++sent > s) weights_of_next();
    }
    while (computed < sent) weights_of_next();
  }
  return split;
}

}  // namespace slimpack
