#include "slimpack/packflow/ranks/mesh.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace slimpack {
namespace {

TEST(Mesh, OfThreeMembersHasOneRound) {
  EXPECT_EQ(Mesh(3, 1).own, (Mesh::Block{0, 3}));
  EXPECT_TRUE(Mesh(3, 1).received.empty() && Mesh(3, 1).targets.empty());
}

TEST(Mesh, PassesOnWhatABlockHas) {
  // Blocks of two and of three. Members 0 and 2, 1 and 3 exchange; 4 gets from 0 and gives nobody.
  EXPECT_EQ(Mesh(5, 0).own, (Mesh::Block{0, 2}));
  EXPECT_EQ(Mesh(5, 0).targets, (std::vector<std::int32_t>{2, 4}));
  EXPECT_EQ(Mesh(5, 1).targets, std::vector<std::int32_t>{3});
  EXPECT_EQ(Mesh(5, 3).targets, std::vector<std::int32_t>{1});
  EXPECT_EQ(Mesh(5, 4).received.front().from, 0);
  EXPECT_TRUE(Mesh(5, 4).targets.empty());
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
    // Of 1,024: 31 in the block of 32 and 31 blocks. A shorter block serves one place more.
    EXPECT_LE(most, 3 * std::sqrt(n)) << n;
    if (n == 1024) EXPECT_EQ(most, 62U);
  }
}

}  // namespace
}  // namespace slimpack
