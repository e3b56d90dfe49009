#include "slimpack/packflow/ranks/rank_grid.h"

#include <fmt/format.h>

#include <bit>

namespace slimpack {

std::string_view to_string(GroupKind kind) {
  constexpr std::array<std::string_view, 13> kNames{
      "world",        "data",       "data in node", "data across nodes", "context",  "tensor",
      "pipeline",     "vocabulary", "tied",         "forward",           "backward", "ring forward",
      "ring backward"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool sums_gradients(GroupKind kind) {
  return kind == GroupKind::kData || kind == GroupKind::kDataInNode ||
         kind == GroupKind::kDataAcrossNodes;
}

std::string RankGroup::name() const {
  std::string text = fmt::format("{} of ranks", to_string(kind));
  if (kind == GroupKind::kWorld) return fmt::format("world of {} ranks", size);
  for (std::int32_t m = 0; m < size; ++m) text += fmt::format("{} {}", m == 0 ? "" : ",", rank(m));
  return text;
}

/// The sizes of groups that run MicroPacks together: all replicas, and 2, 4, 8, … Some ranks have
/// no group of a size that does not divide the replicas, so the group of all comes before these.
std::vector<std::int32_t> context_sizes(std::int32_t replicas) {
  std::vector<std::int32_t> sizes;
  if (!std::has_single_bit(static_cast<unsigned>(replicas))) sizes.push_back(replicas);
  for (std::int32_t size = 2; size <= replicas; size *= 2) sizes.push_back(size);
  return sizes;
}

std::vector<RankGroup> collective_groups(const RankGrid& grid, std::int32_t rank) {
  const RankPlace place = grid.place(rank);
  const std::int32_t replica = place.replica.value(), p = place.pipeline;
  const auto rank_at = [&](std::int32_t r, std::int32_t pipeline, std::int32_t t) {
    return grid.rank({ReplicaId(r), pipeline, t});
  };
  const std::int32_t next_replica = grid.pipeline * grid.tensor;
  std::vector<RankGroup> out{
      {GroupKind::kWorld, grid.ranks(), 0, 1},
      {GroupKind::kData, grid.replicas, rank_at(0, p, place.tensor), next_replica},
      {GroupKind::kTensor, grid.tensor, rank_at(replica, p, 0), 1}};
  const std::int32_t in_node = grid.replicas_summed_in_node();
  if (in_node > 1) {
    const std::int32_t at = replica % in_node;
    out.push_back(
        {GroupKind::kDataInNode, in_node, rank_at(replica - at, p, place.tensor), next_replica});
    out.push_back({GroupKind::kDataAcrossNodes, grid.replicas / in_node,
                   rank_at(at, p, place.tensor), in_node * next_replica});
  }
  if (grid.exchange_context || grid.spread_vocabulary)
    out.push_back(
        {GroupKind::kPipeline, grid.pipeline, rank_at(replica, 0, place.tensor), grid.tensor});
  if (grid.spread_vocabulary)
    out.push_back({GroupKind::kVocabulary, next_replica, rank_at(replica, 0, 0), 1});
  for (const std::int32_t size : context_sizes(grid.replicas)) {
    const std::int32_t begin = replica - replica % size;
    if (begin + size > grid.replicas) continue;
    out.push_back({GroupKind::kContext, size, rank_at(begin, p, place.tensor), next_replica});
  }
  const std::int32_t head = grid.placement.rank_of(StageId(grid.stages() - 1));
  if (head > 0 && (p == 0 || p == head))
    out.push_back({GroupKind::kTied, 2, rank_at(replica, 0, place.tensor), head * grid.tensor});
  return out;
}

std::vector<RankGroup> edge_groups(const RankGrid& grid, std::int32_t rank) {
  const RankPlace place = grid.place(rank);
  const std::int32_t last = grid.pipeline - 1;
  std::vector<RankGroup> groups;
  const auto add = [&](std::array<GroupKind, 2> kinds, bool there, std::int32_t lower,
                       std::int32_t apart) {
    const std::int32_t first = there ? grid.rank({place.replica, lower, place.tensor}) : rank;
    for (const GroupKind kind : kinds)
      groups.push_back({kind, there ? 2 : 1, first, apart * grid.tensor});
  };
  for (const std::int32_t parity : {0, 1}) {
    if (last <= parity) break;
    const std::int32_t lower = place.pipeline % 2 == parity ? place.pipeline : place.pipeline - 1;
    add({GroupKind::kForward, GroupKind::kBackward}, lower >= 0 && lower < last, lower, 1);
  }
  if (grid.placement.goes_around())
    add({GroupKind::kRingForward, GroupKind::kRingBackward},
        place.pipeline == 0 || place.pipeline == last, 0, last);
  return groups;
}

}  // namespace slimpack
