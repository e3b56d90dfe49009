#include "slimpack/job/configured_merging.h"

#include <gtest/gtest.h>

#include "slimpack/job/configured_job.h"

namespace slimpack {
namespace {

Decoder wide_model() {
  Decoder model;
  model.kinds = {{.hidden_size = 1024,
                  .num_heads = 8,
                  .num_kv_heads = 8,
                  .head_dim = 128,
                  .value_dim = 128,
                  .dense_width = 4096}};
  model.set_layers(4);
  model.vocab_size = 1000;
  return model;
}

RunConfig merging_run(std::int32_t pp, std::int32_t dp, std::int64_t context) {
  RunConfig config;
  config.parallel.pp = pp;
  config.parallel.dp = dp;
  config.data.context = Tokens(context);
  config.plan.unlimited_memory = true;
  return config;
}

Costs merging_cost(const RunConfig& config) {
  HardwareSpec hardware;
  hardware.ranks_per_node = 8;
  return cost_from_hardware(wide_model(), Dtype::kBf16, hardware, 1, config.parallel.dp,
                            config.parallel.pp);
}

Nanos step_of_one_document(const RunConfig& config, const Costs& cost, std::int32_t most_merged) {
  const SequenceLengths one{config.data.context};
  Choices choices = configured_choices(config, cost);
  choices.most_merged = most_merged;
  const Job job = configured_job(config, cost, balanced_layout(cost, one, config.parallel.pp));
  return plan_step({job, one, choices, cost}).step->prediction.makespan;
}

TEST(ConfiguredMerging, KeepsToWhatIsSet) {
  RunConfig config = merging_run(1, 64, 1 << 18);
  const Costs cost = merging_cost(config);
  for (const auto& [set, allowed] : {std::pair(1, 1), {2, 2}, {6, 4}, {64, 64}, {4096, 64}}) {
    config.plan.most_merged = set;
    EXPECT_EQ(configured_merging(config, cost), allowed);
  }
}

TEST(ConfiguredMerging, IsLimitedByReplicasAndCosts) {
  EXPECT_EQ(
      configured_merging(merging_run(1, 6, 1 << 18), merging_cost(merging_run(1, 6, 1 << 18))), 4);
  RunConfig config = merging_run(1, 64, 1 << 18);
  Costs cost = merging_cost(config);
  cost.kinds.front().merge.resize(2);  // pairs and fours
  EXPECT_EQ(configured_merging(config, cost), 4);
}

TEST(ConfiguredMerging, GivesADocumentOfTheContextAsManyReplicasAsHelpIt) {
  int wide = 0;
  for (const std::int32_t pp : {1, 2})
    for (const std::int64_t context : {1 << 12, 1 << 15, 1 << 17, 1 << 18}) {
      const RunConfig config = merging_run(pp, 64, context);
      const Costs cost = merging_cost(config);
      const std::int32_t found = configured_merging(config, cost);
      EXPECT_GE(found, kUsualMerging);
      // The planner itself is no quicker with all replicas.
      EXPECT_EQ(step_of_one_document(config, cost, found), step_of_one_document(config, cost, 64))
          << context;
      wide += found > kUsualMerging ? 1 : 0;
    }
  EXPECT_GT(wide, 2);
}

TEST(ConfiguredMerging, LeavesMemoryForADocumentOfTheContext) {
  RunConfig config = merging_run(1, 64, 1 << 18);
  const Costs cost = merging_cost(config);
  const std::int32_t paying = configured_merging(config, cost);
  ASSERT_LT(paying, 64);
  // A document that does not fit there goes to more replicas, as far as there are any.
  const auto fits = [&](std::int32_t group) {
    const SequenceLengths one{config.data.context};
    Choices choices = configured_choices(config, cost);
    choices.most_merged = group;
    const Job job = configured_job(config, cost, balanced_layout(cost, one, 1));
    return plan_step({job, one, choices, cost}).step.has_value();
  };
  config.plan.unlimited_memory = false;
  for (std::int64_t cap = std::int64_t{1} << 36; cap > 1 << 24; cap /= 4) {
    config.plan.memory_cap = Bytes(cap);
    const std::int32_t found = configured_merging(config, cost);
    EXPECT_GE(found, kUsualMerging);
    EXPECT_TRUE(fits(found) || !fits(64)) << cap;
  }
}

}  // namespace
}  // namespace slimpack
