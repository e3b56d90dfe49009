#include "slimpack/packflow/ranks/rank_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_job.h"
#include "slimpack/packflow/ranks/process_transfers.h"

namespace slimpack {
namespace {

std::vector<std::string> names(const std::vector<RankGroup>& groups) {
  std::vector<std::string> out;
  for (const RankGroup& group : groups) out.push_back(group.name());
  return out;
}

TEST(EdgeGroups, AreThoseWithNeighboursOrOfTheRankAlone) {
  const RankGrid grid{.pipeline = 3};
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(edge_groups(grid, 0)), (Names{"forward of ranks 0, 1", "backward of ranks 0, 1",
                                                "forward of ranks 0", "backward of ranks 0"}));
  EXPECT_EQ(names(edge_groups(grid, 1)),
            (Names{"forward of ranks 0, 1", "backward of ranks 0, 1", "forward of ranks 1, 2",
                   "backward of ranks 1, 2"}));
  EXPECT_EQ(names(edge_groups(grid, 2)),
            (Names{"forward of ranks 2", "backward of ranks 2", "forward of ranks 1, 2",
                   "backward of ranks 1, 2"}));
  EXPECT_TRUE(edge_groups({.pipeline = 1}, 0).empty());
}

TEST(EdgeGroups, OfARingAlsoJoinItsEnds) {
  using Names = std::vector<std::string>;
  const RankGrid three{.pipeline = 3, .placement = StagePlacement::looped(3, 2)};
  const auto last_two = [&](std::int32_t rank) {
    const Names all = names(edge_groups(three, rank));
    return Names(all.end() - 2, all.end());
  };
  EXPECT_EQ(last_two(0), (Names{"ring forward of ranks 0, 2", "ring backward of ranks 0, 2"}));
  EXPECT_EQ(last_two(1), (Names{"ring forward of ranks 1", "ring backward of ranks 1"}));
  EXPECT_EQ(last_two(2), last_two(0));
  // Two ranks are neighbours twice.
  EXPECT_EQ(names(edge_groups({.pipeline = 2, .placement = StagePlacement::looped(2, 3)}, 1)),
            (Names{"forward of ranks 0, 1", "backward of ranks 0, 1", "ring forward of ranks 0, 1",
                   "ring backward of ranks 0, 1"}));
}

/// Makes the groups as PyTorch does: a group is made once it is the next of all its members.
/// Returns how many each rank had made before, which names the group.
void make_all(const RankGrid& grid) {
  std::vector<std::vector<RankGroup>> groups;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank)
    groups.push_back(process_groups(grid, rank));
  std::vector<std::size_t> made(groups.size());
  std::size_t left = 0;
  for (const auto& of_rank : groups) left += of_rank.size();
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t rank = 0; rank < groups.size(); ++rank) {
      while (made[rank] < groups[rank].size()) {
        const RankGroup& group = groups[rank][made[rank]];
        bool ready = true;
        for (std::int32_t m = 0; m < group.size; ++m) {
          const auto other = static_cast<std::size_t>(group.rank(m));
          ready &= made[other] < groups[other].size() && groups[other][made[other]] == group &&
                   made[other] == made[rank];
        }
        if (!ready) break;
        for (std::int32_t m = 0; m < group.size; ++m)
          ++made[static_cast<std::size_t>(group.rank(m))];
        left -= static_cast<std::size_t>(group.size);
      }
    }
    ASSERT_LT(left, before)
        << "ranks wait for each other in a circle, or number groups differently";
  }
}

TEST(ProcessGroups, AreMadeInAnOrderInWhichNobodyWaitsInACircle) {
  for (std::int32_t ranks = 1; ranks <= 9; ++ranks)
    for (const std::int32_t replicas : {1, 2, 3, 4, 5})
      for (const std::int32_t tensor : {1, 2, 4})
        for (const std::int32_t stages_per_rank : {1, 2})
          make_all({ranks, replicas, tensor,
                    StagePlacement::looped(ranks, ranks == 1 ? 1 : stages_per_rank)});
}

TEST(ProcessGroups, OfReplicasByNodeAreMadeByAll) {
  // Two tensor-parallel ranks and eight replicas on nodes of eight ranks: four replicas each.
  const RankGrid grid{.replicas = 8, .tensor = 2, .ranks_per_node = 8};
  make_all(grid);
  const auto all = names(process_groups(grid, 11));  // replica 5
  EXPECT_TRUE(std::ranges::count(all, "data in node of ranks 9, 11, 13, 15"));
  EXPECT_TRUE(std::ranges::count(all, "data across nodes of ranks 3, 11"));
  for (const std::int32_t ranks_per_node : {0, 2, 16, 32})  // one node, or no neighbours
    EXPECT_EQ(process_groups({.replicas = 8, .tensor = 2, .ranks_per_node = ranks_per_node}, 0),
              process_groups({.replicas = 8, .tensor = 2}, 0));
}

TEST(ReplicaShards, OfANodesPartAreNeighbours) {
  const RankGrid grid{.replicas = 8, .ranks_per_node = 4};
  // Four parts of 16 elements; the nodes share each.
  const auto begin = [&](std::int32_t replica) {
    return replica_shard(64, grid, ReplicaId(replica)).begin;
  };
  EXPECT_EQ(begin(0), 0);
  EXPECT_EQ(begin(4), 8);
  EXPECT_EQ(begin(1), 16);
  EXPECT_EQ(begin(7), 56);
  for (std::int32_t place = 0; place < 8; ++place)
    EXPECT_EQ(begin(grid.shard_owner(place).value()), 8 * place);
}

TEST(ProcessGroups, OfAThousandRanksAreFewForEach) {
  const RankGrid grid{.pipeline = 16, .replicas = 8, .tensor = 8};
  ASSERT_EQ(grid.ranks(), 1024);
  make_all(grid);
  std::set<RankGroup> all;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    const auto groups = process_groups(grid, rank);
    // Four of edges; world, data, tensor, contexts of 2, 4 and 8 replicas; tied at the ends.
    EXPECT_LE(groups.size(), 11U) << "rank " << rank;
    for (const RankGroup& group : groups) {
      if (group.size > 8) {
        EXPECT_EQ(group.kind, GroupKind::kWorld);
      }
    }
  }
}

/// The ranks to which a rank connects if it uses all of its groups but the contexts, which shift
/// only around their circle.
std::set<std::pair<GroupKind, std::int32_t>> partners(const RankGrid& grid, std::int32_t rank) {
  std::set<std::pair<GroupKind, std::int32_t>> out;
  for (const RankGroup& group : process_groups(grid, rank)) {
    const Mesh mesh(group.size, group.member(rank));
    const auto add = [&](std::int32_t member) {
      if (member != group.member(rank)) out.emplace(group.kind, group.rank(member));
    };
    for (std::int32_t m = mesh.own.begin; m < mesh.own.end; ++m) add(m);
    for (const Mesh::Received& r : mesh.received) add(r.from);
    for (const std::int32_t m : mesh.targets) add(m);
  }
  return out;
}

TEST(ProcessGroups, OfAThousandRanksNeedFewConnections) {
  const RankGrid grids[] = {{16, 8, 8}, {16, 64, 1}, {4, 32, 8}, {1, 1024, 1}, {1, 128, 8}};
  for (const RankGrid& grid : grids) {
    ASSERT_EQ(grid.ranks(), 1024);
    make_all(grid);
    std::size_t all = 0;
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      // Four of edges; world, data, tensor, tied; contexts of 2, 4, … replicas.
      EXPECT_LE(process_groups(grid, rank).size(), 8 + std::log2(grid.replicas));
      std::map<GroupKind, std::size_t> of_kind;
      for (const auto& [kind, other] : partners(grid, rank)) ++of_kind[kind];
      for (const auto& [kind, count] : of_kind) {
        all += count;
        const bool contexts = kind == GroupKind::kContext;
        // 2·(√1,024 − 1) of the world and of 1,024 replicas; seven other tensor-parallel ranks.
        EXPECT_LE(count, contexts ? 150U : 62U) << "rank " << rank << ", kind " << int(kind);
      }
    }
    // All with all would be 1,023 · 1,024 ends in the world's group alone.
    EXPECT_LE(all, 300U * 1024) << grid.pipeline << " pipeline ranks";
  }
}

}  // namespace
}  // namespace slimpack
