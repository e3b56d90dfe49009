// Profiles of a device and of processes: what they measure, and by which clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_parts.h"
#include "slimpack/packflow/profile/profile_ranks.h"
#include "tests/packflow/support/mail_processes.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/small_runs.h"

namespace slimpack {
namespace {

using testing::kPretended;
using testing::MailJob;

ProfileOptions on_device(Tokens context) {
  ProfileOptions options;
  options.shape = slimpack::testing::small_shape(2, true);
  options.context = context;
  options.device = kPretended;
  options.budget = from_seconds(0.1);
  return options;
}

std::vector<std::int64_t> whole_documents(const std::vector<ProfilePoint>& grid) {
  std::vector<std::int64_t> tokens;
  for (const ProfilePoint& p : grid)
    if (p.prefix == Tokens(0) && p.slices == 1) tokens.push_back(p.tokens.count());
  return tokens;
}

TEST(PackSizes, OnADeviceDoubleUpToTheContext) {
  EXPECT_EQ(whole_documents(layer_grid(on_device(Tokens(20'000)))),
            (std::vector<std::int64_t>{32, 128, 512, 2048, 4096, 8192, 16384}));
  // The largest also ends the longest document, and is shared by eight.
  const std::vector<ProfilePoint> grid = layer_grid(on_device(Tokens(20'000)));
  EXPECT_TRUE(std::ranges::any_of(grid, [](const ProfilePoint& p) {
    return p.tokens == Tokens(16'384) && p.prefix == Tokens(20'000 - 16'384);
  }));
  EXPECT_TRUE(std::ranges::any_of(
      grid, [](const ProfilePoint& p) { return p.tokens == Tokens(2048) && p.slices == 8; }));
}

TEST(PackSizes, OnACpuStaySmall) {
  ProfileOptions options = on_device(Tokens(20'000));
  options.device = at::Device(at::kCPU);
  EXPECT_EQ(std::ranges::max(whole_documents(layer_grid(options))), 2048);
  for (const ProfilePoint& p : layer_grid(options)) EXPECT_LE(p.tokens, Tokens(2048));
}

TEST(PackSizes, EndBeforeTheDeviceIsFull) {
  // 24 GB, of which nine tenths may be filled. A token of this layer takes about 1 MB.
  ProfileOptions options = on_device(Tokens(1 << 20));
  options.shape.kinds[0].hidden_size = 8192;
  options.shape.kinds[0].dense_width = 28'672;
  options.shape.kinds[0].num_heads = 64;
  options.shape.kinds[0].num_kv_heads = 8;
  options.shape.kinds[0].head_dim = options.shape.kinds[0].value_dim = 128;
  options.dtype = Dtype::kBf16;
  const auto room = static_cast<double>(testing::kPretendedMemory) * 0.9;
  const std::vector<std::int64_t> sizes = whole_documents(layer_grid(options));
  const auto bytes = [&](std::int64_t tokens) {
    return static_cast<double>(predicted_bytes(options, {Tokens(tokens), Tokens(0)}).count());
  };
  EXPECT_GE(sizes.back(), 4096);
  EXPECT_LE(bytes(sizes.back()), room);
  EXPECT_GT(bytes(sizes.back() * 2), room);
  // Two ranks share the device.
  options.ranks = 2;
  EXPECT_LT(whole_documents(layer_grid(options)).back(), sizes.back());
}

TEST(PackSizes, PredictedBytesAreAtLeastThoseOfTheLayer) {
  // Weights and gradients in fp32 and two moments: 16 bytes a parameter. Forward and backward of
  // 2,048 tokens take some more, rows of the hidden size at least.
  const ProfileOptions options = on_device(Tokens(4096));
  const LayerShape& s = options.shape.kinds[0];
  const std::int64_t parameters =
      s.hidden_size * (2 * s.num_heads + 2 * s.num_kv_heads) * s.head_dim +
      3 * s.hidden_size * s.dense_width;
  const Bytes small = predicted_bytes(options, {Tokens(32), Tokens(0)});
  EXPECT_GE(small.count(), 16 * parameters);
  EXPECT_GE((predicted_bytes(options, {Tokens(2048), Tokens(0)}) - small).count(),
            2000 * s.hidden_size * 4);
}

TEST(DeviceProfile, TimesTheQueueAndNotTheHost) {
  // The host comes back at once; the copy that it put off is done 20 ms later.
  const Nanos time =
      on_profile_ranks<Nanos>({}, {.device = kPretended}, [](const ProfileRank& rank) {
        const at::Tensor there = at::zeros({1}, kPretended), here = at::ones({1}).pin_memory();
        const Nanos all = rank.time_of([&] {
          at::Tensor(there).copy_(here, /*non_blocking=*/true);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        });
        const Nanos host = rank.time_of([&] { static_cast<void>(there + there); });
        EXPECT_LT(host, all);
        return all;
      });
  EXPECT_GE(time, from_seconds(0.020));
}

TEST(DeviceProfile, TimesNoPolicyThatNoPlanChooses) {
  // Fused kernels do the same work for kNothing as for kElementwise, but for norms of q and k.
  ProfileOptions options = on_device(Tokens(64));
  options.dtype = Dtype::kBf16;
  options.shape.kinds[0].hidden_size = 64;
  options.shape.kinds[0].dense_width = 128;
  options.shape.kinds[0].num_heads = 4;
  options.shape.kinds[0].num_kv_heads = 2;
  options.shape.kinds[0].head_dim = options.shape.kinds[0].value_dim = 16;
  for (const bool qk_norm : {false, true}) {
    options.shape.kinds[0].qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone;
    const Costs cost = profile_costs(options);
    const LayerCosts& layer = cost.kinds.front();
    EXPECT_EQ(layer.elementwise != EdgeTime(), qk_norm);
    // No recomputation takes negative time.
    ASSERT_TRUE(layer.again.has_value());
    for (const EdgeTime& time : {layer.again->attention, layer.again->mlp, layer.again->full}) {
      EXPECT_TRUE(std::isfinite(time.per_pack) && std::isfinite(time.per_token));
      EXPECT_GE(time.per_pack, 0);
      EXPECT_GE(time.per_token, 0);
    }
  }
}

/// The costs that each process of a job finds.
std::vector<Costs> profile_on_processes(const RankGrid& grid, ProfileOptions options) {
  // 34 ms for 16 MiB: more than a busy machine adds to the fastest of several messages of 4 KiB.
  MailJob job(grid, /*nanos_per_byte=*/2);
  std::vector<Costs> costs(static_cast<std::size_t>(grid.ranks()));
  std::vector<std::jthread> processes;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank)
    processes.emplace_back([&, rank] {
      ProfileOptions own = options;
      own.job = {&job.process(rank), grid};
      costs[static_cast<std::size_t>(rank)] = profile_costs(own);
    });
  processes.clear();
  return costs;
}

TEST(JobProfile, MeasuresBetweenTheRanksOfTheJob) {
  // Three replicas: of groups of two the third is no member.
  ProfileOptions options = on_device(Tokens(256));
  options.device = at::Device(at::kCPU);
  options.most_merged = 2;
  const std::vector<Costs> costs =
      profile_on_processes({.pipeline = 2, .replicas = 3, .tensor = 1}, options);
  for (const Costs& cost : costs) {
    EXPECT_NE(cost.origin.source.find("6 processes"), std::string::npos) << cost.origin.source;
    // Messages of 16 MiB take longer than those of 4 KiB.
    EXPECT_GT(cost.transfer.per_byte, 0);
    EXPECT_GT(cost.reduction.latency + cost.reduction.per_byte, 0);
    ASSERT_EQ(cost.kinds.front().merge.size(), 1U);
    // Merging is never free: it takes time for each MicroPack, for what travels, or for both.
    EXPECT_GT(cost.kinds.front().merge[0].forward.per_pack +
                  cost.kinds.front().merge[0].forward_travel.per_query,
              0);
    // All ranks agree on figures that are a mean of all.
    EXPECT_EQ(cost.kinds.front().forward, costs[0].kinds.front().forward);
    EXPECT_EQ(cost.transfer.latency, costs[0].transfer.latency);
    EXPECT_EQ(cost.kinds.front().merge, costs[0].kinds.front().merge);
  }
}

TEST(JobProfile, OnDevicesMeasuresInTheirQueues) {
  const std::vector<Costs> costs = profile_on_processes({.pipeline = 2}, on_device(Tokens(256)));
  for (const Costs& cost : costs) {
    EXPECT_GT(cost.transfer.per_byte, 0);
    EXPECT_GT(cost.host.per_byte, 0);
    EXPECT_GT(cost.host.memory, Bytes(0));
    EXPECT_EQ(cost.host.memory, costs[0].host.memory);
    EXPECT_EQ(cost.reduction.per_byte, 0);  // one replica
    EXPECT_EQ(cost.transfer.per_byte, costs[0].transfer.per_byte);
  }
}

TEST(JobProfile, OfOneStageAndOneReplicaHasNobodyToExchangeWith) {
  const std::vector<Costs> costs = profile_on_processes({.tensor = 2}, [] {
    ProfileOptions options = on_device(Tokens(64));
    options.tp = 2;
    return options;
  }());
  for (const Costs& cost : costs) {
    EXPECT_EQ(cost.transfer.latency, 0);
    EXPECT_EQ(cost.reduction.latency, 0);
    EXPECT_GT(cost.kinds.front().forward.per_pack + cost.kinds.front().forward.per_slice +
                  cost.kinds.front().forward.per_token,
              0);
  }
}

}  // namespace
}  // namespace slimpack
