#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_parts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/packflow/support/small_runs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

ProfileOptions small_profile(Tokens context) {
  ProfileOptions options;
  options.shape = slimpack::testing::small_shape(2, true);
  options.context = context;
  options.budget = from_seconds(0.3);
  return options;
}

TEST(Profile, GivesTimesThatAPlannerCanUse) {
  // How long anything takes is the machine's business; that it takes time is not.
  for (const std::int64_t context : {40, 1024}) {
    const Costs cost = profile_costs(small_profile(Tokens(context)));
    const LayerCosts& layer = cost.kinds.front();
    EXPECT_EQ(cost.shape, small_profile(Tokens(context)).shape);
    for (const PackCost& time : {layer.forward, layer.backward}) {
      for (const double c :
           {time.per_pack, time.per_slice, time.per_token, time.per_pair, time.per_prefix_token}) {
        EXPECT_TRUE(std::isfinite(c));
        EXPECT_GE(c, 0);
      }
      EXPECT_GT(time.per_pack + time.per_slice + time.per_token + time.per_pair, 0);
    }
    for (const EdgeTime& time :
         {cost.ends.embedding_forward, cost.ends.embedding_backward, cost.ends.head_backward}) {
      EXPECT_TRUE(std::isfinite(time.per_pack) && std::isfinite(time.per_token));
      EXPECT_GE(time.per_pack, 0);
      EXPECT_GE(time.per_token, 0);
      EXPECT_GT(time.per_pack + time.per_token, 0);
    }
    // Keeping everything saves something, and no more than backward takes.
    EXPECT_GT(layer.elementwise.per_pack + layer.elementwise.per_token, 0);
    EXPECT_LE(layer.elementwise.per_pack, layer.backward.per_pack);
    EXPECT_LE(layer.elementwise.per_token, layer.backward.per_token);
    // Putting weight gradients off saves something, too, and no more than backward takes.
    EXPECT_GT(layer.weight_gradient.per_pack + layer.weight_gradient.per_token, 0);
    EXPECT_LE(layer.weight_gradient.per_pack, layer.backward.per_pack);
    EXPECT_LE(layer.weight_gradient.per_token, layer.backward.per_token);
    EXPECT_FALSE(layer.again.has_value());  // of a CPU forward says it
    EXPECT_GT(cost.optimizer_per_parameter, 0);
    EXPECT_GE(cost.origin.fit_error, 0);
    EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost"), cost);
  }
}

TEST(Profile, MeasuresLayersWithAWindowBesideOthers) {
  ProfileOptions options = small_profile(Tokens(512));
  options.shape.family = ModelFamily::kQwen2;
  LayerShape full = options.shape.kinds.front(), windowed = full;
  windowed.window = 40;
  options.shape.set_layers({full, windowed});
  options.ranks = 2;
  options.most_merged = 2;
  options.clock = ClockKind::kVirtual;
  const Costs cost = profile_costs(options);
  ASSERT_EQ(cost.kinds.size(), 2U);
  EXPECT_EQ(cost.kinds.front().forward.window, Tokens(0));
  for (const PackCost& time : {cost.kinds[1].forward, cost.kinds[1].backward}) {
    EXPECT_EQ(time.window, Tokens(40));
    EXPECT_GT(time.per_pack + time.per_slice + time.per_token + time.per_window_pair, 0);
  }
  EXPECT_EQ(cost.kinds.front().merge.size(), 1U);
  EXPECT_EQ(cost.kinds[1].merge.size(), 1U);
  EXPECT_GT(cost.kinds[1].weight_gradient.per_pack + cost.kinds[1].weight_gradient.per_token, 0);
}

TEST(Profile, MeasuresOnAsManyRanksAsThereCanBeThreads) {
  // With tp 3, 63 of 100 ranks are whole stages within the 64 that one process can run.
  ProfileOptions options = small_profile(Tokens(64));
  options.ranks = 100;
  options.tp = 3;
  EXPECT_EQ(options.grid(), (RankGrid{.replicas = 21, .tensor = 3}));
}

TEST(Profile, MeasuresOnSeveralRanksAtOnce) {
  ProfileOptions options = small_profile(Tokens(256));
  options.ranks = 2;
  const Costs cost = profile_costs(options);
  const LayerCosts& layer = cost.kinds.front();
  EXPECT_NE(cost.origin.source.find("2 threads"), std::string::npos);
  // On so small a shape noise may leave all of the time to the constant terms.
  EXPECT_GT(layer.forward.per_pack + layer.forward.per_slice + layer.forward.per_token +
                layer.forward.per_pair,
            0);
}

TEST(Profile, MeasuresWhatRanksCostEachOther) {
  ProfileOptions options = small_profile(Tokens(256));
  options.ranks = 2;
  options.tp = 2;
  options.most_merged = 4;
  options.clock = ClockKind::kVirtual;
  const Costs cost = profile_costs(options);
  EXPECT_EQ(cost.tp, 2);
  EXPECT_NE(cost.origin.source.find("tp 2"), std::string::npos);
  ASSERT_EQ(cost.kinds.front().merge.size(), 2U);  // groups of 2 and 4
  for (const MergeTime& merge : cost.kinds.front().merge) {
    const std::pair forward{merge.forward.per_pack, merge.forward_travel};
    for (const auto& [per_pack, travel] :
         {forward, std::pair{merge.backward.per_pack, merge.backward_travel}}) {
      EXPECT_TRUE(std::isfinite(per_pack) && std::isfinite(travel.per_query));
      EXPECT_GT(per_pack + travel.per_query, 0);
    }
    // A rank has three query heads and a key head of eight numbers. Forward sends 96 bytes of q and
    // gets 108 of the output and its log-sum-exp; or sends 64 of k and v. Backward 396; or 128.
    EXPECT_DOUBLE_EQ(merge.forward_travel.per_key, merge.forward_travel.per_query * 64 / 204);
    EXPECT_DOUBLE_EQ(merge.backward_travel.per_key, merge.backward_travel.per_query * 128 / 396);
  }
  EXPECT_GT(cost.reduction.latency + cost.reduction.per_byte, 0);
  EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost"), cost);
}

TEST(Profile, RefusesTensorParallelRanksThatCannotShareTheModel) {
  ProfileOptions options = small_profile(Tokens(256));
  options.tp = 3;
  expect_invalid_input([&] { static_cast<void>(profile_costs(options)); }, {"parallel.tp is 3"});
}

TEST(Profile, ComparesThePassesAtPowersOfFour) {
  ProfileOptions options = small_profile(Tokens(2000));
  options.budget = from_seconds(600);  // no machine is so slow that 1,024 tokens take two minutes
  const std::vector<PassRatio> ratios = measure_pass_ratios(options);
  ASSERT_EQ(ratios.size(), 2u);
  EXPECT_EQ(ratios[0].tokens, Tokens(256));
  EXPECT_EQ(ratios[1].tokens, Tokens(1024));
  for (const PassRatio& r : ratios) {
    EXPECT_GT(r.attention_forward, Nanos(0));
    EXPECT_GT(r.attention_backward, Nanos(0));
  }
}

TEST(Profile, ComparesNoPassesThatWouldTakeMoreThanTheBudgetsShare) {
  ProfileOptions options = small_profile(Tokens(2000));
  options.budget = Nanos(1000);  // 1,024 tokens in 200 ns: no machine is so fast
  const std::vector<PassRatio> ratios = measure_pass_ratios(options);
  ASSERT_EQ(ratios.size(), 1u);
  EXPECT_EQ(ratios[0].tokens, Tokens(256));
}

}  // namespace
}  // namespace slimpack
