// Steps: list what a rank runs forward, and what backward; then take from both lists.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// Packs [begin, end) whose backwards start when all of them have passed forward.
struct MicroBatch {
  std::int32_t begin, end;

  [[nodiscard]] std::int32_t size() const { return end - begin; }
  /// So many packs pass one of a rank's stages before they pass the next: the smallest divisor of
  /// the size that is at least the number of ranks. The first of them then arrives at the rank's
  /// next stage when the last has left this one. All, if there are too few.
  [[nodiscard]] std::int32_t round(std::int32_t ranks) const {
    for (std::int32_t g = ranks; g < size(); ++g)
      if (size() % g == 0) return g;
    return size();
  }
};

std::vector<MicroBatch> micro_batches(const PackPlan& packs) {
  std::vector<MicroBatch> batches;
  std::int32_t begin = 0;
  for (const std::int32_t end : forwards_needed(packs)) {
    if (end <= begin) continue;
    batches.push_back({begin, end});
    begin = end;
  }
  return batches;
}

/// The order of one pass on a rank: round by round, in each of them stage by stage.
std::vector<Action> rank_order(const std::vector<MicroBatch>& batches, Pass pass, std::int32_t rank,
                               std::int32_t ranks, std::int32_t stages_per_rank) {
  std::vector<Action> order;
  for (const MicroBatch& batch : batches) {
    const std::int32_t round = batch.round(ranks);
    for (std::int32_t first = batch.begin; first < batch.end; first += round)
      for (std::int32_t i = 0; i < stages_per_rank; ++i) {
        const std::int32_t local = pass == Pass::kForward ? i : stages_per_rank - 1 - i;
        for (std::int32_t p = first; p < first + round; ++p)
          order.push_back({StageId(local * ranks + rank), pass, PackId(p)});
      }
  }
  return order;
}

}  // namespace

// The last rank runs `in_flight` forwards ahead throughout the step: the most that any backward
// needs beyond one for each backward before it. Each rank is a constant number of forwards ahead
// of the next, never behind. So a forward never waits for a backward that comes after it, and the
// ranks cannot wait for each other in a circle. With several stages a rank that also holds around
// the ring if the first rank is at most two rounds ahead of the last.
Schedule sliced_one_f_one_b(const PackPlan& packs, int ranks, std::int32_t ahead_per_rank,
                            std::int32_t stages_per_rank) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && ranks >= 1 &&
                 ahead_per_rank >= 0 && stages_per_rank >= 1);
  const std::vector<MicroBatch> batches = micro_batches(packs);
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  std::int32_t in_flight = 0;
  for (std::size_t b = 0; b < needed.size(); ++b)
    in_flight = std::max(in_flight, stages_per_rank * (needed[b] - static_cast<std::int32_t>(b)));
  std::int32_t most_ahead = ahead_per_rank * ranks;
  for (const MicroBatch& batch : batches)
    if (stages_per_rank > 1) most_ahead = std::min(most_ahead, 2 * batch.round(ranks));
  Schedule schedule{{}, stages_per_rank};
  for (std::int32_t r = 0; r < ranks; ++r) {
    const std::vector<Action> forward =
        rank_order(batches, Pass::kForward, r, ranks, stages_per_rank);
    const std::vector<Action> backward =
        rank_order(batches, Pass::kBackward, r, ranks, stages_per_rank);
    const auto count = static_cast<std::int32_t>(forward.size());
    const std::int32_t ahead = in_flight + std::min(ahead_per_rank * (ranks - 1 - r), most_ahead);
    auto& actions = schedule.ranks.emplace_back();
    std::int32_t f = 0;
    for (std::int32_t b = 0; b < count; ++b) {
      while (f < std::min(ahead + b, count))
        actions.push_back(forward[static_cast<std::size_t>(f++)]);
      actions.push_back(backward[static_cast<std::size_t>(b)]);
    }
  }
  return schedule;
}

}  // namespace slimpack
