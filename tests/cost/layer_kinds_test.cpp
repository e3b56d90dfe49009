// Models whose layers differ.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "slimpack/cost/cost_model.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

/// The model with each layer named a kind of its own, all of them alike.
Decoder by_kinds(const Decoder& model, std::size_t kinds) {
  Decoder shape = model;
  shape.kinds.assign(kinds, model.kinds[0]);
  shape.kind_of_layer.clear();
  for (std::int64_t l = 0; l < model.num_layers(); ++l)
    shape.kind_of_layer.push_back(static_cast<std::uint8_t>(static_cast<std::size_t>(l) % kinds));
  return shape;
}

HardwareSpec hardware() {
  HardwareSpec h;
  h.host_bandwidth = 50e9;
  return h;
}

Slice slice(std::int64_t begin, std::int64_t end) {
  return {SequenceId(0), Tokens(begin), Tokens(end)};
}

RC_GTEST_PROP(LayerKinds, ThatAreAlikeCostWhatOneKindCosts, ()) {
  const auto recompute = *rc::gen::container<RecomputeByLayer>(
      3, rc::gen::element(Recompute::kNothing, Recompute::kElementwise, Recompute::kAttention,
                          Recompute::kMlp, Recompute::kFull, Recompute::kOffload));
  const Decoder model = testing::small_gqa();
  const std::int32_t tp = *rc::gen::element(1, 2);
  const auto costs = [&](const Decoder& shape) {
    return with_recompute(cost_from_hardware(shape, Dtype::kBf16, hardware(), tp, 4), recompute);
  };
  const RecomputingCosts one = costs(model), some = costs(by_kinds(model, 2));
  const StageLayout layout{{0, 1, 3}};
  const PackPlan packs{.forward = {{{slice(0, 40)}}, {{slice(40, 100)}}},
                       .backward = {{{slice(30, 100)}}, {{slice(0, 30)}}}};
  const TaskBytes bytes = task_bytes(one, layout, packs, {Tokens(100)});
  const TaskBytes same = task_bytes(some, layout, packs, {Tokens(100)});
  for (const auto part :
       {&TaskBytes::rows, &TaskBytes::kv, &TaskBytes::dkv, &TaskBytes::forward_transient,
        &TaskBytes::backward_transient, &TaskBytes::weight_operands, &TaskBytes::input_transient,
        &TaskBytes::weight_transient})
    RC_ASSERT((bytes.*part) == (same.*part));
  for (std::int32_t s = 0; s < 2; ++s)
    for (const Pass pass : kWholePasses) {
      const PackCost a = stage_cost(one, layout, StageId(s), pass, 2);
      const PackCost b = stage_cost(some, layout, StageId(s), pass, 2);
      for (const Slice& part : {slice(0, 7), slice(13, 90)})
        RC_ASSERT(std::abs(a(part) - b(part)) <= 1e-12 * a(part));
      RC_ASSERT(std::abs(a.per_pack - b.per_pack) <= 1e-12 * a.per_pack);
    }
  RC_ASSERT(stage_parameters(one.shape, layout, StageId(1)) ==
            stage_parameters(some.shape, layout, StageId(1)));
}

TEST(LayerKinds, OneAloneCostsWhatAModelThatCanBeTrainedCosts) {
  Costs one = cost_from_hardware(testing::llama2_7b(), Dtype::kBf16, hardware(), 4, 2);
  const Costs named =
      cost_from_hardware(by_kinds(testing::llama2_7b(), 1), Dtype::kBf16, hardware(), 4, 2);
  one.shape = named.shape;
  EXPECT_EQ(one, named);  // to the bit
}

/// Layers of two kinds, the second with so many more rows in its MLP.
Decoder uneven(std::int64_t layers, std::int64_t period, std::int64_t times) {
  Decoder model = testing::small_gqa();
  model.set_layers(layers);
  Decoder shape = by_kinds(model, 2);
  shape.kinds[1].dense_width *= times;
  for (std::size_t l = 0; l < shape.kind_of_layer.size(); ++l)
    shape.kind_of_layer[l] = l % static_cast<std::size_t>(period) == 0 ? 1 : 0;
  return shape;
}

/// The heaviest stage of a layout, embedding and head with it.
double heaviest(const Costs& known, const StageLayout& layout, Tokens length, LastStage last) {
  const RecomputingCosts cost{known};
  double most = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const bool backward_alone = last == LastStage::kBackwardAlone && s + 1 == layout.stages();
    double load = 0;
    for (const Pass pass : kWholePasses)
      if (pass == Pass::kBackward || !backward_alone)
        load += stage_cost(cost, layout, StageId(s), pass)({SequenceId(0), Tokens(0), length});
    most = std::max(most, load);
  }
  return most;
}

RC_GTEST_PROP(LayerKinds, AreDividedSuchThatTheHeaviestStageIsAsLightAsItCanBe, ()) {
  const std::int64_t layers = *rc::gen::inRange(3, 10);
  const auto stages = *rc::gen::inRange<std::int32_t>(1, 4);
  Costs cost = cost_from_hardware(uneven(layers, *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 40)),
                                  Dtype::kBf16, hardware());
  for (LayerCosts& kind : cost.kinds) kind.forward.per_slice = kind.backward.per_slice = 0;
  const Tokens length(200);
  // On one stage the embedding's forward would count once in one oracle and not in the other.
  const auto last = stages == 1
                        ? LastStage::kBothPasses
                        : *rc::gen::element(LastStage::kBothPasses, LastStage::kBackwardAlone);
  const StageLayout chosen = balanced_layout(cost, {length}, stages, 1, false, last);
  RC_ASSERT(chosen.stages() == stages);
  RC_ASSERT(chosen.layer_begin.front() == 0 && chosen.layer_begin.back() == layers);
  // All ways to choose the borders.
  double least = std::numeric_limits<double>::infinity();
  std::vector<bool> border(static_cast<std::size_t>(layers) - 1, false);
  std::fill(border.end() - (stages - 1), border.end(), true);
  do {
    StageLayout layout{{0}};
    for (std::size_t l = 0; l < border.size(); ++l)
      if (border[l]) layout.layer_begin.push_back(static_cast<std::int32_t>(l) + 1);
    layout.layer_begin.push_back(static_cast<std::int32_t>(layers));
    least = std::min(least, heaviest(cost, layout, length, last));
  } while (std::next_permutation(border.begin(), border.end()));
  RC_ASSERT(heaviest(cost, chosen, length, last) <= least * (1 + 1e-8));
}

TEST(LayerKinds, ThatAreAlikeGiveLaterStagesTheLayersLeftOver) {
  Decoder model = testing::small_gqa();
  model.set_layers(11);
  Costs cost = cost_from_hardware(by_kinds(model, 2), Dtype::kBf16, hardware());
  cost.ends.embedding_forward = cost.ends.embedding_backward = cost.ends.head_backward = {};
  EXPECT_EQ(balanced_layout(cost, {Tokens(77)}, 4), (StageLayout{{0, 2, 5, 8, 11}}));
}

RC_GTEST_PROP(LayerKinds, OfWhichSomeHaveAWindowTakeTheTimeOfThePairsInIt, ()) {
  const std::int64_t window = *rc::gen::inRange(1, 60);
  const std::int64_t begin = *rc::gen::inRange(0, 100), end = begin + *rc::gen::inRange(1, 100);
  double pairs = 0;
  for (std::int64_t t = begin; t < end; ++t) pairs += static_cast<double>(std::min(t + 1, window));
  RC_ASSERT(slice(begin, end).window_pairs(Tokens(window)) == pairs);

  Decoder shape = by_kinds(testing::small_gqa(), 2);  // layers 0 and 2, and layer 1
  shape.kinds[1].window = window;
  const Costs cost = cost_from_hardware(shape, Dtype::kBf16, hardware());
  const Costs full = cost_from_hardware(testing::small_gqa(), Dtype::kBf16, hardware());
  const StageLayout layout{{0, 3}};
  for (const Pass pass : kWholePasses) {
    const auto time = [&](const Costs& of) {
      return stage_cost(RecomputingCosts{of}, layout, StageId(0), pass)(slice(begin, end));
    };
    const PackCost layer =
        pass == Pass::kForward ? full.kinds.front().forward : full.kinds.front().backward;
    const double left_out = slice(begin, end).causal_pairs() - pairs;
    const double unread = static_cast<double>(begin - std::min(begin, window - 1));
    const double expected =
        time(full) - layer.per_pair * left_out - layer.per_prefix_token * unread;
    RC_ASSERT(std::abs(time(cost) - expected) <= 1e-9 * time(full));
    const PackPlan packs{.forward = {{{slice(begin, end)}}}, .backward = {{{slice(begin, end)}}}};
    const TaskTimes times = task_times(RecomputingCosts{cost}, layout, packs);
    const PackCost stage = stage_cost(RecomputingCosts{cost}, layout, StageId(0), pass);
    const Nanos task = pass == Pass::kForward ? times.forward[0][0] : times.backward[0][0];
    RC_ASSERT(std::abs(static_cast<double>(task.count()) - stage.per_pack - time(cost)) <= 1);
  }
}

Decoder sparse(std::int64_t shared) {
  Decoder shape = by_kinds(testing::small_gqa(), 1);
  LayerShape& layer = shape.kinds[0];
  layer.dense_width = shared;
  layer.experts = 8;
  layer.experts_per_token = 2;
  layer.expert_width = 12;
  return shape;
}

TEST(LayerKinds, WithExpertsSendTokensToThemAndBack) {
  // Bytes that one of two ranks receives by token of the MicroPack: it has half of the tokens and
  // sends half of their two copies away, 20 numbers each: 20 bf16 numbers, 40 bytes a trip. Hidden
  // states are gathered or scattered in halves, 20 bytes a time.
  HardwareSpec h = hardware();
  h.node_link_bytes_per_second = 1e9;  // a nanosecond a byte
  h.node_link_latency_us = 1;
  HardwareSpec free = h;
  free.node_link_bytes_per_second = 1e30;
  free.node_link_latency_us = 0;
  const auto collectives = [&](const Decoder& shape, bool backward) {
    const Costs slow = cost_from_hardware(shape, Dtype::kBf16, h, 2);
    const Costs fast = cost_from_hardware(shape, Dtype::kBf16, free, 2);
    const PackCost& a = backward ? slow.kinds.front().backward : slow.kinds.front().forward;
    const PackCost& b = backward ? fast.kinds.front().backward : fast.kinds.front().forward;
    return std::pair(a.per_token - b.per_token, a.per_pack - b.per_pack);
  };
  const auto expect = [](std::pair<double, double> found, double bytes, double trips) {
    EXPECT_NEAR(found.first, bytes, 1e-6);
    EXPECT_NEAR(found.second, 1000 * trips, 1e-6);
  };
  expect(collectives(sparse(0), false), 2 * 20 + 2 * 20, 4);  // attention's, and two trips
  expect(collectives(sparse(0), true), 3 * 20 + 3 * 20, 6);
  expect(collectives(sparse(4), false), 4 * 20 + 2 * 20, 6);  // and the shared experts'
}

TEST(LayerKinds, WithExpertsTakeTensorParallelismThatDividesThem) {
  Decoder shape = sparse(0);
  shape.kinds[0].experts = 3;
  expect_invalid_input([&] { (void)cost_from_hardware(shape, Dtype::kBf16, HardwareSpec{}, 2); },
                       {"tp is 2", "3 experts"});
}

TEST(LayerKinds, HoldWhatTheirTokensUseAndKeepAllWeights) {
  // Per layer: 8 experts of 3·20·12 and a router of 8·20, where a dense MLP of width 24 = 2·12 has
  // 3·20·24; a token's gate and up are as wide as there.
  Decoder dense = testing::small_gqa();
  dense.kinds[0].dense_width = 24;
  const Decoder shape = sparse(0);
  EXPECT_EQ(shape.parameters() - dense.parameters(), 3 * (8 * 720 + 160 - 1440));
  EXPECT_EQ(shape.active_parameters() - dense.parameters(), 3 * 160);
  const RecomputingCosts a{cost_from_hardware(shape, Dtype::kFp32, HardwareSpec{})};
  const RecomputingCosts b{cost_from_hardware(dense, Dtype::kFp32, HardwareSpec{})};
  const StageLayout one{{0, 3}};
  // A token also keeps the router's probabilities, 8 in fp32, and the numbers of its two experts.
  EXPECT_EQ(sequence_bytes(a, one, 0, Tokens(10)) - sequence_bytes(b, one, 0, Tokens(10)),
            Bytes(10 * 3 * (8 * 4 + 2 * 8)));
}

}  // namespace
}  // namespace slimpack
