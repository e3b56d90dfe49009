#include "bench/published/job.h"

#include <gtest/gtest.h>

#include "tests/published/step_support.h"

namespace slimpack::bench {
namespace {

std::string reason(const PublishedStep& step) {
  const Expressed job = express(step, {});
  return std::holds_alternative<std::string>(job) ? std::get<std::string>(job) : "expressed";
}

TEST(Job, HasTheStepsMicroPacksAndStages) {
  PublishedStep step = gpt_22b();
  step.pp = 4;
  step.stages_per_rank = 3;
  step.dp = 2;
  step.batch = 64;
  const PublishedJob job = job_of(step, {});
  EXPECT_EQ(job.packs.forward.size(), 8U) << "64 sequences, 2 replicas, 4 a MicroPack";
  EXPECT_EQ(job.lengths.size(), 32U);
  EXPECT_EQ(job.layout.stages(), 12);
  EXPECT_EQ(job.layout.ranks(), 4);
  EXPECT_EQ(job.layout.layers(StageId(11)), 4);
}

TEST(Job, SaysWhyAStepCannotBeExpressed) {
  const auto changed = [](auto change) {
    PublishedStep step = gpt_22b();
    change(step);
    return reason(step);
  };
  EXPECT_EQ(reason(gpt_22b()), "expressed");
  EXPECT_EQ(changed([](auto& s) { s.ffn = 0; }), "expert layers of unpublished widths");
  EXPECT_EQ(changed([](auto& s) { s.cp = 2; }), "context parallelism of every MicroPack");
  EXPECT_EQ(changed([](auto& s) { s.precision = "amp_fp8"; }), "fp8 products");
  EXPECT_EQ(changed([](auto& s) { s.micro_batch = 0; }), "micro-batch not published");
  EXPECT_EQ(changed([](auto& s) { s.batch = 0; }), "batch not published");
  EXPECT_EQ(changed([](auto& s) { s.seconds = 0; }), "neither time nor memory published");
  EXPECT_EQ(changed([](auto& s) { s.recompute = ""; }), "recomputation not published");
  EXPECT_EQ(changed([](auto& s) {
              s.shard = "ZeRO-1 within 8";
              s.dp = 16;
              s.batch = 64;
            }),
            "state shared within groups of replicas");
  EXPECT_EQ(changed([](auto& s) { s.batch = 6; }),
            "batch is no multiple of micro-batch and replicas");
  EXPECT_EQ(changed([](auto& s) { s.pp = 5; }), "stages of unlike layers");
}

}  // namespace
}  // namespace slimpack::bench
