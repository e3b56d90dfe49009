#include "slimpack/packflow/ranks/process_transfers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace slimpack {
namespace {

TEST(Mesh, OfASmallGroupHasOneRound) {
  EXPECT_EQ(Mesh(15, 1).own, (Mesh::Block{0, 15}));
  EXPECT_TRUE(Mesh(15, 1).received.empty() && Mesh(15, 1).targets.empty());
}

TEST(Mesh, PassesOnWhatABlockHas) {
  // Blocks of 16 and nine: of the second one, seven serve two members of the first one each.
  EXPECT_EQ(Mesh::blocks(25), (std::vector<Mesh::Block>{{0, 16}, {16, 25}}));
  EXPECT_EQ(Mesh(25, 0).targets, (std::vector<std::int32_t>{16}));
  EXPECT_TRUE(Mesh(25, 9).targets.empty());
  EXPECT_EQ(Mesh(25, 9).received.front().from, 16);
  EXPECT_EQ(Mesh(25, 16).targets, (std::vector<std::int32_t>{0, 9}));
  EXPECT_EQ(Mesh(25, 24).targets, (std::vector<std::int32_t>{8}));
  EXPECT_EQ(Mesh(25, 24).received.front().from, 8);
}

TEST(Mesh, GivesEveryMemberEverythingOnce) {
  for (std::int32_t n = 1; n <= 130; ++n) {
    std::vector<Mesh> meshes;
    for (std::int32_t m = 0; m < n; ++m) meshes.emplace_back(n, m);
    std::multiset<std::pair<std::int32_t, std::int32_t>> sent, received;
    for (std::int32_t m = 0; m < n; ++m) {
      std::int32_t known = meshes[m].own.end - meshes[m].own.begin;
      for (const Mesh::Received& r : meshes[m].received) {
        known += r.block.end - r.block.begin;
        EXPECT_EQ(meshes[r.from].own, r.block) << n << " members, member " << m;
        received.emplace(r.from, m);
      }
      EXPECT_EQ(known, n) << "member " << m;
      for (const std::int32_t target : meshes[m].targets) sent.emplace(m, target);
    }
    EXPECT_EQ(sent, received) << n << " members";
  }
}

TEST(Mesh, OfAThousandMembersNeedsFewConnections) {
  for (const std::int32_t n : {1000, 1024, 4096}) {
    std::size_t most = 0;
    for (std::int32_t m = 0; m < n; ++m) {
      const Mesh mesh(n, m);
      std::set<std::int32_t> others(mesh.targets.begin(), mesh.targets.end());
      for (const Mesh::Received& r : mesh.received) others.insert(r.from);
      for (std::int32_t k = mesh.own.begin; k < mesh.own.end; ++k) others.insert(k);
      most = std::max(most, others.size() - 1);
    }
    // A member of 1,024 talks to 31 in its block of 32 and to 31 blocks. A shorter block serves
    // more places.
    EXPECT_LE(most, 3 * std::sqrt(n)) << n;
    if (n == 1024) {
      EXPECT_EQ(most, 62U);
    }
  }
}

}  // namespace
}  // namespace slimpack
