#include <gtest/gtest.h>

#include "bench/published/accounting.h"
#include "bench/published/costs.h"
#include "bench/published/predict.h"
#include "tests/published/step_support.h"
#include "tests/support/bound_costs.h"

namespace slimpack::bench {
namespace {

constexpr double kGib = 0x1p30;

/// Nanoseconds of a layer's pass over the job's MicroPack.
double pass_time(const PackCost& cost, const PublishedJob& job) {
  double nanos = cost.per_pack;
  for (const Slice& slice : job.packs.forward.front().slices) nanos += cost(slice);
  return nanos;
}

TEST(Accounting, IsThatOfThePaper) {
  // arXiv:2205.05198, figure 1: 22B on tp 8 keeps 59.25 GiB without recomputation and 9.56 GiB
  // with selective recomputation and sequence sharding (with rounding of the figure).
  const double tokens = 4 * 2048;
  PublishedStep step = gpt_22b();
  EXPECT_NEAR(row_bytes(job_of(step, {})) * tokens * 48 / kGib, 59.25, 0.3);
  step.recompute = "selective (core attention) + SP";
  EXPECT_NEAR(row_bytes(job_of(step, {})) * tokens * 48 / kGib, 9.56, 0.3);
  step.recompute = "full, no SP";
  EXPECT_EQ(row_bytes(job_of(step, {})), 2 * 6144) << "the input alone, on every rank";
}

TEST(Accounting, CountsEighteenBytesAParameterAndSharesTwelve) {
  PublishedStep step = gpt_22b();
  const double plain = state_bytes(job_of(step, {}), 0);
  step.dp = 4;
  step.batch = 16;
  step.shard = "distributed optimizer";
  EXPECT_NEAR(state_bytes(job_of(step, {}), 0) / plain, (6 + 12.0 / 4) / 18, 1e-12);
}

TEST(Costs, APassTakesAtLeastTheHostsTime) {
  Machines machines;
  machines.megatron.layer_host_us = 1e6;
  machines.megatron.collective_host_us = 1e3;
  machines.megatron.collective_rank_us = 10;
  PublishedStep step = gpt_22b();
  step.recompute = "full, no SP";
  const PublishedJob job = job_of(step, machines);
  const Costs cost = published_costs(job);
  // Two collectives a pass, of 8 ranks: 2 · (1,000 + 7 · 10) µs. Backward runs forward again.
  EXPECT_NEAR(pass_time(cost.kinds.front().forward, job), (1e6 + 2140) * 1e3, 1);
  EXPECT_NEAR(pass_time(cost.kinds.front().backward, job), (1e6 + 2 * 2140) * 1e3, 1);
  machines.megatron = {};
  EXPECT_LT(pass_time(published_costs(job_of(step, machines)).kinds.front().forward, job), 1e8);
}

TEST(Costs, BytesMoveAtTheMemorysRate) {
  Machines machines;
  machines.vtrain.memory_bandwidth = 1e12;
  PublishedStep step = gpt_22b();
  const PublishedJob before = job_of(step, machines);
  machines.megatron.elementwise_bytes = 20;
  machines.megatron.score_bytes = 16;
  const PublishedJob job = job_of(step, machines);
  const double tokens = 4 * 2048, pairs = 4 * 2048.0 * 2049 / 2;
  // 20 bytes for each of 6,144 hidden dimensions of a token, on every rank, and 16 for a pair and
  // each of the rank's 8 heads, at 1,000 bytes a nanosecond; twice that in backward.
  const double moved = tokens * 20 * 6144 / 1e3 + pairs * 16 * 8 / 1e3;
  const auto more = [&](auto pass) {
    return pass_time(published_costs(job).kinds.front().*pass, job) -
           pass_time(published_costs(before).kinds.front().*pass, job);
  };
  EXPECT_NEAR(more(&LayerCosts::forward), moved, 1e-6 * moved);
  // Without elementwise bytes, backward is that of a program that keeps norms' results.
  const double saved = published_costs(before).kinds.front().elementwise.per_pack +
                       tokens * published_costs(before).kinds.front().elementwise.per_token;
  EXPECT_NEAR(more(&LayerCosts::backward), 2 * moved + saved, 1e-6 * moved);
}

TEST(Prediction, OfFullRecomputationTakesOneForwardMore) {
  PublishedStep step = gpt_22b();
  Machines machines;
  machines.megatron.elementwise_bytes = 20;
  const PublishedJob none = job_of(step, machines);
  step.recompute = "full, no SP";
  const PublishedJob full = job_of(step, machines);
  const double forward = 48 * pass_time(published_costs(none).kinds.front().forward, none) * 1e-9;
  EXPECT_NEAR(predict(full).seconds - predict(none).seconds, forward, 1e-6);
  EXPECT_LT(predict(full).memory, predict(none).memory);
}

TEST(Prediction, OfPlainReplicasAddsARingAllReduce) {
  PublishedStep step = gpt_22b();
  step.tp = 1;
  const PublishedJob one = job_of(step, {});
  step.dp = 8;
  step.batch = 32;
  const PublishedJob eight = job_of(step, {});
  // Both fit into a node: 2 · 7/8 of 2 bytes a parameter at the link's rate, and two latencies.
  const auto parameters = static_cast<double>(one.shape.parameters());
  const HardwareSpec& h = eight.hardware;
  const double reduce = 2 * 7.0 / 8 * 2 * parameters / h.node_link_bytes_per_second +
                        2 * h.node_link_latency_us * 1e-6;
  EXPECT_NEAR(predict(eight).seconds - predict(one).seconds, reduce, 1e-3 * reduce);
}

}  // namespace
}  // namespace slimpack::bench
