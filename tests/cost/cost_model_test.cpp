#include "slimpack/cost/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::llama2_7b;
using testing::round_model;
using testing::slice;
using testing::small_gqa;

TEST(Costs, SliceCostSumsLayersAndEdgesOfTheStage) {
  const RecomputingCosts cost{round_model()};
  const StageLayout layout{{0, 1, 3}};
  const Slice s = slice(0, 4, 6);  // 2 tokens, prefix 4, pairs 5 + 6 = 11
  // Forward, stage 0, one layer: 10 + 2·2 + 11 + 3·4 = 37, embedding 5·2 = 10.
  EXPECT_EQ(stage_cost(cost, layout, StageId(0), Pass::kForward)(s), 47);
  // Forward, stage 1: two layers of 37; the head has no forward.
  EXPECT_EQ(stage_cost(cost, layout, StageId(1), Pass::kForward)(s), 74);
  // Backward, stage 0: 20 + 4·2 + 2·11 + 6·4 = 74, embedding 7·2 = 14.
  EXPECT_EQ(stage_cost(cost, layout, StageId(0), Pass::kBackward)(s), 88);
  // Backward, stage 1: two layers of 74, head 11·2 = 22.
  EXPECT_EQ(stage_cost(cost, layout, StageId(1), Pass::kBackward)(s), 170);
}

TEST(Costs, TaskTimesAddWhatEveryMicroPackCosts) {
  const RecomputingCosts cost{round_model()};
  const StageLayout layout{{0, 1, 3}};
  PackPlan packs;
  packs.forward = {{{slice(0, 4, 6), slice(1, 0, 1)}}};
  packs.backward = {{{slice(1, 0, 1)}}, {{slice(0, 4, 6)}}};
  const TaskTimes times = task_times(cost, layout, packs);
  ASSERT_EQ(times.stages(), 2);
  // A layer's forward: 100 + 37 (as above) + 10 + 2 + 1 = 150. Stage 0 adds 1000 + 5·3.
  EXPECT_EQ(times.forward[0], std::vector{Nanos(150 + 1015)});
  EXPECT_EQ(times.forward[1], std::vector{Nanos(300)});
  // A layer's backward: 200 + 20 + 4 + 2 = 226 and 200 + 74 = 274.
  EXPECT_EQ(times.backward[0], (std::vector{Nanos(226 + 2007), Nanos(274 + 2014)}));
  EXPECT_EQ(times.backward[1], (std::vector{Nanos(452 + 4011), Nanos(548 + 4022)}));
  // fp32: 20 · 4 = 80 bytes a token, half a nanosecond each.
  EXPECT_EQ(times.forward_transfer, std::vector{Nanos(50 + 120)});
  EXPECT_EQ(times.backward_transfer, (std::vector{Nanos(50 + 40), Nanos(50 + 80)}));
}

TEST(Costs, OneStageHoldsEmbeddingAndHead) {
  const RecomputingCosts cost{round_model()};
  PackPlan packs;
  packs.forward = {{{slice(0, 0, 1)}}};
  packs.backward = packs.forward;
  const TaskTimes times = task_times(cost, StageLayout{{0, 3}}, packs);
  // One token, one pair. Forward 3·(100 + 10 + 2 + 1) + 1005; backward 3·226 + 2007 + 4011.
  EXPECT_EQ(times.forward[0][0], Nanos(1344));
  EXPECT_EQ(times.backward[0][0], Nanos(6696));
}

TEST(Costs, StepEndCountsTheParametersOfEachStage) {
  RecomputingCosts cost{round_model()};
  const Decoder& s = cost.shape;
  // Embedding and head 50·20 = 1000 each, the final norm 20, two nanoseconds per parameter.
  const std::int64_t layer = s.kinds[0].parameters();
  EXPECT_EQ(task_times(cost, StageLayout{{0, 1, 3}}, {}).step_end,
            (std::vector{Nanos(2 * (layer + 1000)), Nanos(2 * (2 * layer + 1020))}));
  EXPECT_EQ(task_times(cost, StageLayout{{0, 3}}, {}).step_end,
            std::vector{Nanos(2 * s.parameters())});
  // A tied matrix is one parameter where both of its users share a stage, else a copy on either.
  cost.shape.tie_embeddings = true;
  EXPECT_EQ(task_times(cost, StageLayout{{0, 3}}, {}).step_end,
            std::vector{Nanos(2 * (3 * layer + 1020))});
  EXPECT_EQ(task_times(cost, StageLayout{{0, 1, 3}}, {}).step_end[1],
            Nanos(2 * (2 * layer + 1020)));
}

double heaviest_stage(const RecomputingCosts& cost, const StageLayout& layout,
                      const SequenceLengths& lengths) {
  double heaviest = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    double load = 0;
    for (const Tokens length : lengths) {
      const Slice whole{SequenceId(), Tokens(0), length};
      load += stage_cost(cost, layout, StageId(s), Pass::kForward)(whole) +
              stage_cost(cost, layout, StageId(s), Pass::kBackward)(whole);
    }
    heaviest = std::max(heaviest, load);
  }
  return heaviest;
}

/// The least heaviest stage over every way to place the remaining cuts.
double lightest_layout(const RecomputingCosts& cost, const SequenceLengths& lengths,
                       StageLayout layout, std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers());
  if (layout.stages() + 1 == stages) {
    layout.layer_begin.push_back(layers);
    return heaviest_stage(cost, layout, lengths);
  }
  double lightest = std::numeric_limits<double>::infinity();
  const std::int32_t stages_after = stages - layout.stages() - 1;
  for (std::int32_t cut = layout.layer_begin.back() + 1; cut <= layers - stages_after; ++cut) {
    StageLayout longer = layout;
    longer.layer_begin.push_back(cut);
    lightest = std::min(lightest, lightest_layout(cost, lengths, longer, stages));
  }
  return lightest;
}

RC_GTEST_PROP(BalancedLayout, IsAsLightAsTheBestOfAllCuts, ()) {
  RecomputingCosts cost{round_model()};
  cost.shape.set_layers(*rc::gen::inRange(1, 11));
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers());
  const auto stages = *rc::gen::inRange<std::int32_t>(1, std::min(layers, 6) + 1);
  cost.ends.embedding_forward.per_token = *rc::gen::inRange(0, 300);
  cost.ends.embedding_backward.per_token = *rc::gen::inRange(0, 300);
  cost.ends.head_backward.per_token = *rc::gen::inRange(0, 2000);
  SequenceLengths lengths;
  for (const int n : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 300))) {
    lengths.emplace_back(n);
  }
  const StageLayout layout = balanced_layout(cost, lengths, stages);
  RC_ASSERT(layout.stages() == stages);
  RC_ASSERT(layout.layer_begin.front() == 0);
  RC_ASSERT(layout.layer_begin.back() == layers);
  for (std::int32_t s = 0; s < stages; ++s) RC_ASSERT(layout.layers(StageId(s)) >= 1);
  const double best = lightest_layout(cost, lengths, StageLayout{{0}}, stages);
  RC_ASSERT(heaviest_stage(cost, layout, lengths) <= best * (1 + 1e-12));
}

TEST(BalancedLayout, TakesLayersFromTheStageOfTheHead) {
  // Llama-2-7B on short documents: the head costs 6 · 131,072,000 FLOPs a token, a layer
  // 6 · 202,375,168, so the head weighs 0.65 of a layer: 8 layers on the last stage would be 8.65.
  // 33 units of work would need 9 layers on some stage; with 32 layers on 5 stages it is 7, 7, 6,
  // 6, 6 without the head. The head's stage stays at 6 and the extra layers go to the later of the
  // rest.
  HardwareSpec even;
  even.linear_half_rows = 0;
  even.attention_slice_us = 0;
  even.attention_token_head_ns = 0;
  even.attention_forward_flops = even.attention_backward_flops = even.linear_flops;
  const Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, even);
  EXPECT_EQ(balanced_layout(cost, {Tokens(16)}, 5).layer_begin,
            (std::vector<std::int32_t>{0, 6, 12, 19, 26, 32}));
}

/// Layers that take 1 of a token forward and 2 backward.
Costs layers_of_three(std::int64_t layers) {
  Costs cost;
  cost.shape = small_gqa();
  cost.shape.set_layers(layers);
  cost.kinds.front().forward.per_token = 1;
  cost.kinds.front().backward.per_token = 2;
  return cost;
}

TEST(BalancedLayout, CountsTheHeadOfTargetsAlone) {
  // Eleven layers of 3 and a head of 9 on two stages.
  Costs cost = layers_of_three(11);
  cost.ends.head_backward.per_token = 9;
  EXPECT_EQ(balanced_layout(cost, {Tokens(1)}, 2), (StageLayout{{0, 7, 11}}));  // 21 and 12 + 9
  cost.ends.target_share = 0.1;
  EXPECT_EQ(balanced_layout(cost, {Tokens(1)}, 2), (StageLayout{{0, 6, 11}}));  // 18 and 15 + 0.9
}

TEST(StageTable, CountsTheHeadOfTargetsAlone) {
  // A head takes 100 of each MicroPack and 9 of each target: 3 of a token where a third are
  // targets.
  Costs cost;
  cost.shape = small_gqa();
  cost.shape.set_layers(4);
  cost.ends.head_backward = {100, 9};
  cost.ends.target_share = 1.0 / 3;
  const StageTable whole = stage_table(cost, StageLayout{{0, 2, 4}});
  EXPECT_DOUBLE_EQ(whole.stage(StageId(1), Pass::kBackward).per_token, 3);
  EXPECT_DOUBLE_EQ(whole.stage(StageId(1), Pass::kBackward).per_pack, 100);
  EXPECT_DOUBLE_EQ(whole.stage(StageId(0), Pass::kBackward).per_token, 0);
  // Two ranks share a spread one.
  StageLayout spread{{0, 2, 4}};
  spread.spread_vocabulary = true;
  EXPECT_DOUBLE_EQ(stage_table(cost, spread).vocabulary(Pass::kHead).per_token, 1.5);
}

TEST(BalancedLayout, BalancesRanksThenTheirStages) {
  // Eleven layers of 3 and a head of 6 on two ranks of two stages. Six layers on the rank of stages
  // 0 and 2, five and the head on the other: 18 and 21. Seven and four would be 21 and 18, but
  // fuller stages. Stages 0 and 2 have three layers each, 1 and 3 two and three.
  Costs cost = layers_of_three(11);
  cost.ends.head_backward.per_token = 6;
  EXPECT_EQ(balanced_layout(cost, {Tokens(1)}, 2, 2),
            (StageLayout{{0, 3, 5, 8, 11}, StagePlacement::looped(2, 2)}));
}

TEST(BalancedLayout, GivesALastStageThatRunsBackwardAloneMoreLayers) {
  // Forward 1, backward 2 a layer. Both passes: 4 and 4 layers. Backward alone: 3 layers are 9 and
  // 5 are 10; 4 on the first stage would be 12.
  Costs cost = layers_of_three(8);
  EXPECT_EQ(balanced_layout(cost, {Tokens(1)}, 2), (StageLayout{{0, 4, 8}}));
  EXPECT_EQ(balanced_layout(cost, {Tokens(1)}, 2, 1, false, LastStage::kBackwardAlone),
            (StageLayout{{0, 3, 8}}));
}

TEST(BalancedLayout, SpreadsLayersEvenlyWhenNothingCostsAnything) {
  Costs cost;
  cost.shape = small_gqa();
  cost.shape.set_layers(8);
  EXPECT_EQ(balanced_layout(cost, {}, 4).layer_begin, (std::vector<std::int32_t>{0, 2, 4, 6, 8}));
}

TEST(BalancedLayout, RefusesMoreStagesThanLayersAndNone) {
  const Costs cost = round_model();
  for (const std::int32_t stages : {4, 0, -1}) {
    try {
      (void)balanced_layout(cost, {Tokens(8)}, stages);
      FAIL() << stages << " stages were accepted";
    } catch (const InvalidInput& e) {
      EXPECT_NE(std::string(e.what()).find(fmt::format("{} pipeline stages", stages)),
                std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace slimpack
