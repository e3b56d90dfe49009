#include "slimpack/packflow/ranks/rank_groups.h"

#include <fmt/format.h>

namespace slimpack {

std::string RankGroup::name() const {
  constexpr std::array<const char*, 7> kNames{"world", "data",    "context", "tensor",
                                              "tied",  "forward", "backward"};
  std::string text = fmt::format("{} of ranks", kNames[static_cast<std::size_t>(kind)]);
  if (kind == GroupKind::kWorld) return fmt::format("world of {} ranks", size);
  for (std::int32_t m = 0; m < size; ++m) text += fmt::format("{} {}", m == 0 ? "" : ",", rank(m));
  return text;
}

std::vector<RankGroup> collective_groups(const RankGrid& grid, std::int32_t rank) {
  const RankPlace place = grid.place(rank);
  const std::int32_t replica = place.replica.value(), stage = place.stage.value();
  const auto rank_at = [&](std::int32_t r, std::int32_t s, std::int32_t t) {
    return grid.rank({ReplicaId(r), StageId(s), t});
  };
  const std::int32_t next_replica = grid.stages * grid.tensor;
  std::vector<RankGroup> out{
      {GroupKind::kWorld, grid.ranks(), 0, 1},
      {GroupKind::kData, grid.replicas, rank_at(0, stage, place.tensor), next_replica},
      {GroupKind::kTensor, grid.tensor, rank_at(replica, stage, 0), 1}};
  for (std::int32_t size = 2; size <= grid.replicas; size *= 2) {
    const std::int32_t begin = replica - replica % size;
    if (begin + size > grid.replicas) break;
    out.push_back({GroupKind::kContext, size, rank_at(begin, stage, place.tensor), next_replica});
  }
  if (grid.stages > 1 && (stage == 0 || stage == grid.stages - 1))
    out.push_back(
        {GroupKind::kTied, 2, rank_at(replica, 0, place.tensor), (grid.stages - 1) * grid.tensor});
  return out;
}

std::vector<RankGroup> edge_groups(const RankGrid& grid, std::int32_t rank) {
  const RankPlace place = grid.place(rank);
  std::vector<RankGroup> groups;
  for (const std::int32_t parity : {0, 1}) {
    if (grid.stages <= 1 + parity) break;
    const std::int32_t stage = place.stage.value();
    const std::int32_t lower = stage % 2 == parity ? stage : stage - 1;
    const bool there = lower >= 0 && lower + 1 < grid.stages;
    const std::int32_t first =
        there ? grid.rank({place.replica, StageId(lower), place.tensor}) : rank;
    for (const GroupKind kind : {GroupKind::kForward, GroupKind::kBackward})
      groups.push_back({kind, there ? 2 : 1, first, grid.tensor});
  }
  return groups;
}

}  // namespace slimpack
