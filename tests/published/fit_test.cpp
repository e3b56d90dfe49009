#include "bench/published/fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/published/predict.h"
namespace slimpack::bench {
namespace {

TEST(Fit, TakesHalfOfTheStepsAlwaysTheSame) {
  const std::vector<bool> fitted = fitted_half(1440);
  EXPECT_EQ(std::ranges::count(fitted, true), 720);
  EXPECT_EQ(fitted, fitted_half(1440));
  // A choice by place would take a run of neighbours.
  EXPECT_GT(std::ranges::count(fitted.begin(), fitted.begin() + 720, true), 300);
  EXPECT_LT(std::ranges::count(fitted.begin(), fitted.begin() + 720, true), 420);
}

TEST(Fit, FindsTheLinkThatMadeTheTimes) {
  HardwareSpec link;
  link.node_link_latency_us = 25;
  link.node_link_bytes_per_second = 2e11;
  std::vector<AllReduce> times;
  for (const std::int32_t ranks : {2, 4, 8})
    for (const double bytes : {1e6, 1e7, 1e9}) {
      times.push_back({ranks, bytes, 0});
      times.back().seconds = all_reduce_seconds(link, times.back());
    }
  // Eight ranks send 2 · 7/8 of 1 GB at 200 GB/s: 8.75 ms and twice 25 µs.
  EXPECT_NEAR(times.back().seconds, 8.8e-3, 1e-9);
  const FittedLink fitted = fit_link(times);
  EXPECT_NEAR(fitted.latency_us, 25, 1e-6);
  EXPECT_NEAR(fitted.bytes_per_second, 2e11, 1e3);
}

/// Steps that the model itself made, with figures other than those the search starts from.
TEST(Fit, FindsFiguresThatExplainTheSteps) {
  Machines truth;
  truth.megatron.layer_host_us = 1200;
  truth.megatron.elementwise_bytes = 30;
  Published published;
  for (const std::int32_t micro_batch : {1, 2, 4, 8})
    for (const std::int32_t hidden : {1024, 2048, 4096})
      for (const std::int32_t pp : {1, 2}) {
        PublishedStep step;
        step.set = kOneNode;
        step.gpu = "A100, vTrain";
        step.layers = 8;
        step.hidden = hidden;
        step.heads = step.kv_heads = 16;
        step.ffn = 4 * hidden;
        step.vocabulary = 51200;
        step.tokens = Tokens(1024);
        step.pp = pp;
        step.micro_batch = micro_batch;
        step.batch = 4 * micro_batch;
        step.recompute = "full";
        step.precision = "fp16";
        step.seconds = 1;
        step.seconds = predict(std::get<PublishedJob>(express(step, truth))).seconds;
        published.steps.push_back(step);
      }
  published.all_reduces = {{2, 1e6, 3e-5}, {2, 1e9, 5e-3}};
  Machines start = truth;
  start.megatron.layer_host_us = 600;
  start.megatron.elementwise_bytes = 60;
  double error = 1;
  const Machines found =
      fit(published, start, [&](std::string_view, double least) { error = least; });
  EXPECT_LT(error, 0.01);
  EXPECT_NEAR(found.megatron.layer_host_us, 1200, 60);
}

}  // namespace
}  // namespace slimpack::bench
