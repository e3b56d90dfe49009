#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/cost_model.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"
#include "tests/support/counted_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::counted_costs;
using testing::slice;

const StageLayout kTwoStages{{0, 1, 3}};
const SequenceLengths kLengths{Tokens(10), Tokens(2)};
/// Cuts of backward that forward does not have.
const PackPlan kAsymmetric{{{{slice(0, 0, 6)}}, {{slice(0, 6, 10), slice(1, 0, 2)}}},
                           {{{slice(0, 5, 10)}}, {{slice(1, 0, 2), slice(0, 0, 5)}}}};
const PackPlan kPaired{{{{slice(0, 0, 6)}}, {{slice(0, 6, 10), slice(1, 0, 2)}}},
                       {{{slice(1, 0, 2), slice(0, 6, 10)}}, {{slice(0, 0, 6)}}}};

std::vector<std::int64_t> counts(const auto& quantities) {
  std::vector<std::int64_t> out;
  for (const auto& q : quantities) out.push_back(q.count());
  return out;
}
using Counts = std::vector<std::int64_t>;

TEST(AutogradTimes, OfRecomputationRunEveryLayerAgainInBackward) {
  const auto cost = with_recompute(counted_costs({0, 0, 0}), Recompute::kFull);
  const TaskTimes times = task_times(cost, kTwoStages, kAsymmetric);
  // One layer: 10 ns a token in forward, 30 in backward.
  EXPECT_EQ(counts(times.forward[0]), Counts({60, 60}));
  EXPECT_EQ(counts(times.backward[0]), Counts({150, 210}));
  // Two layers. The last stage runs the first MicroPack as far as its last layer's keys, which the
  // second one needs: one layer. Nobody needs keys of the second MicroPack.
  EXPECT_EQ(counts(times.forward[1]), Counts({60, 0}));
  EXPECT_EQ(counts(times.backward[1]), Counts({300, 420}));
}

TEST(AutogradTimes, OfKeptGraphsAreThoseOfPairsAndOthersRunAgain) {
  const auto cost = with_recompute(counted_costs({0, 0, 0}), Recompute::kNothing);
  const TaskTimes paired = task_times(cost, kTwoStages, kPaired);
  // 11 ns a token and layer in forward, 19 in backward, on the last stage as well.
  EXPECT_EQ(counts(paired.forward[0]), Counts({66, 66}));
  EXPECT_EQ(counts(paired.backward[0]), Counts({114, 114}));
  EXPECT_EQ(counts(paired.forward[1]), Counts({132, 132}));
  EXPECT_EQ(counts(paired.backward[1]), Counts({228, 228}));
  const auto full = with_recompute(counted_costs({0, 0, 0}), Recompute::kFull);
  const TaskTimes kept = task_times(cost, kTwoStages, kAsymmetric);
  const TaskTimes again = task_times(full, kTwoStages, kAsymmetric);
  EXPECT_EQ(kept.forward, again.forward);
  EXPECT_EQ(kept.backward, again.backward);
}

TEST(AutogradTimes, OfGraphsWithoutElementwiseResultsAreThoseOfTheirLayers) {
  using enum Recompute;
  const auto cost =
      with_recompute(counted_costs({0, 0, 0}), {kElementwise, kNothing, kElementwise});
  const TaskTimes paired = task_times(cost, kTwoStages, kPaired);
  // First stage: 12 and 22 ns a token. Last stage: 11 + 12 and 19 + 22.
  EXPECT_EQ(counts(paired.forward[0]), Counts({72, 72}));
  EXPECT_EQ(counts(paired.backward[0]), Counts({132, 132}));
  EXPECT_EQ(counts(paired.forward[1]), Counts({138, 138}));
  EXPECT_EQ(counts(paired.backward[1]), Counts({246, 246}));
  const auto full = with_recompute(counted_costs({0, 0, 0}), kFull);
  EXPECT_EQ(task_times(cost, kTwoStages, kAsymmetric).backward,
            task_times(full, kTwoStages, kAsymmetric).backward);
  // A layer that runs again in whole takes its stage along.
  const auto partly = with_recompute(counted_costs({0, 0, 0}), {kFull, kElementwise, kFull});
  EXPECT_EQ(task_times(partly, kTwoStages, kPaired).backward,
            task_times(full, kTwoStages, kPaired).backward);
}

TEST(AutogradTimes, CountAStagesOwnWorkInEveryForward) {
  Costs known = counted_costs({0, 0, 0});
  known.autograd->stage = {.per_pack = 7, .per_token = 1};
  const auto full = with_recompute(known, Recompute::kFull);
  const auto kept = with_recompute(known, Recompute::kNothing);
  // 6 tokens: 13 more in forward; in backward of 6 tokens only where it runs forward again.
  EXPECT_EQ(counts(task_times(full, kTwoStages, kPaired).forward[0]), Counts({73, 73}));
  EXPECT_EQ(counts(task_times(full, kTwoStages, kPaired).backward[0]), Counts({193, 193}));
  EXPECT_EQ(counts(task_times(kept, kTwoStages, kPaired).forward[0]), Counts({79, 79}));
  EXPECT_EQ(counts(task_times(kept, kTwoStages, kPaired).backward[0]), Counts({114, 114}));
}

TEST(AutogradTimes, OfTheStepsEndReduceWholeGradientsAndUpdateOnEveryReplica) {
  Costs known = counted_costs({0, 0, 0});
  known.reduction.latency = 7;
  known.reduction.per_byte = 0.25;
  const auto cost = with_recompute(known, Recompute::kFull);
  const TaskTimes one = task_times(cost, kTwoStages, kPaired, {.replicas = 1});
  const TaskTimes two = task_times(cost, kTwoStages, kPaired, {.replicas = 2});
  // First stage: 100 of its layer and 40 before it; last stage: 200 and 44 after them. The 40 that
  // both have are exchanged: 5 + 0.5 · 4 · 40.
  EXPECT_EQ(counts(one.reduce), Counts({85, 85}));
  EXPECT_EQ(counts(one.step_end), Counts({280, 488}));
  // Twice a ring of one step over two: 2 · (7 + 0.25 · 560 / 2) and 2 · (7 + 0.25 · 976 / 2).
  EXPECT_EQ(counts(two.reduce), Counts({85 + 154, 85 + 258}));
  EXPECT_EQ(two.step_end, one.step_end);
}

TEST(AutogradMemory, OfRecomputationIsInputsKeysAndTheGraphOfOneBackward) {
  const auto cost = with_recompute(counted_costs({0, 0}), Recompute::kFull);
  const TaskBytes bytes = task_bytes(cost, {{0, 1, 2}}, kAsymmetric, kLengths);
  // The first stage's inputs are token ids. The last stage keeps 6 rows of 16 bytes twice.
  EXPECT_EQ(counts(bytes.rows[0]), Counts({0, 0}));
  EXPECT_EQ(counts(bytes.rows[1]), Counts({96, 96}));
  for (const std::size_t stage : {0, 1}) {
    // Slices with a prefix begin at 5 and 6 in both passes, at 5 in backward: 6 and 5 tokens of 8
    // bytes. Sums of fp32 gradients are as wide.
    EXPECT_EQ(counts(bytes.kv[stage]), Counts({48, 0}));
    EXPECT_EQ(counts(bytes.dkv[stage]), Counts({40, 0}));
    EXPECT_EQ(counts(bytes.forward_transient[stage]), Counts({300, 300}));
  }
  // First backward: 5 rows of 16 bytes, again as a gradient, and a graph of 5 · 100 + 5 · 8; in the
  // layer 5 · 30 and the new sums, 40: 890. Second: 7 · (16 + 16 + 100) + 7 · 30.
  EXPECT_EQ(counts(bytes.backward_transient[0]), Counts({890, 1134}));
  EXPECT_EQ(bytes.backward_transient[1], bytes.backward_transient[0]);  // the head needs less
  EXPECT_EQ(counts(bytes.forward_input), Counts({96, 96}));
  EXPECT_EQ(counts(bytes.backward_input), Counts({80, 112}));
}

TEST(AutogradMemory, OfKeptGraphsIsHeldFromForwardToBackward) {
  const auto cost = with_recompute(counted_costs({0, 0}), Recompute::kNothing);
  const TaskBytes bytes = task_bytes(cost, {{0, 1, 2}}, kPaired, kLengths);
  // 6 · (16 + 100) and, with a prefix of 6, 48 more.
  EXPECT_EQ(counts(bytes.rows[0]), Counts({696, 744}));
  EXPECT_EQ(bytes.rows[1], bytes.rows[0]);
  EXPECT_EQ(counts(bytes.kv[0]), Counts({48, 0}));
  // The output's gradient, 6 · 16; in the layer 6 · 30, and first the sums of 6 tokens, 48.
  EXPECT_EQ(counts(bytes.backward_transient[0]), Counts({96 + 180 + 48, 96 + 180}));
}

TEST(AutogradMemory, OfElementwiseLayersKeepsLessAndPeaksWhereTheyRunAgain) {
  using enum Recompute;
  const auto all = with_recompute(counted_costs({0, 0}), kElementwise);
  const auto nothing = with_recompute(counted_costs({0, 0}), kNothing);
  const TaskBytes bytes = task_bytes(all, {{0, 1, 2}}, kPaired, kLengths);
  // 6 · (16 + 60), whatever the prefix.
  EXPECT_EQ(counts(bytes.rows[0]), Counts({456, 456}));
  // The output's gradient, 6 · 16; in the layer 6 · 80, and first the sums of 6 tokens, 48.
  EXPECT_EQ(counts(bytes.backward_transient[0]), Counts({96 + 480 + 48, 96 + 480}));
  EXPECT_EQ(bytes.kv, task_bytes(nothing, {{0, 1, 2}}, kPaired, kLengths).kv);

  // Backward of one stage with two layers runs the second layer first. In the first layer the
  // second one's 6 · 60 are gone.
  const auto mixed = with_recompute(counted_costs({0, 0}), {kNothing, kElementwise});
  const TaskBytes of_both = task_bytes(mixed, {{0, 2}}, kPaired, kLengths);
  EXPECT_EQ(counts(of_both.rows[0]), Counts({6 * (16 + 60 + 100), 6 * (16 + 60 + 100) + 48}));
  EXPECT_EQ(counts(of_both.backward_transient[0]), Counts({96 + 480 + 48, 96 + 480}));

  // A MicroPack without a pair has the whole graph when it runs again.
  EXPECT_EQ(task_bytes(all, {{0, 1, 2}}, kAsymmetric, kLengths).backward_transient,
            task_bytes(nothing, {{0, 1, 2}}, kAsymmetric, kLengths).backward_transient);
}

TEST(AutogradMemory, OfManyLayersPeaksWhereGraphsOrTheSumsOfGradientsAreMost) {
  const auto cost = with_recompute(counted_costs({0, 0, 0, 0, 0, 0, 0, 0}), Recompute::kFull);
  auto wide = cost;
  wide.autograd->layers[0].kv_bytes = 16;
  const auto peak_of = [&](const RecomputingCosts& costs, std::int64_t begin, std::int64_t end) {
    const StageLayout one{{0, 8}};
    const SequenceLengths lengths{Tokens(end)};
    const PackPlan packs{{{{slice(0, 0, end)}}},
                         {{{slice(0, begin, end)}}, {{slice(0, 0, begin)}}}};
    return task_bytes(costs, one, packs, lengths).backward_transient[0][0].count();
  };
  // Ten tokens: input and gradient 320, graphs 8 · 1,720, in the last layer 300 and sums of 720.
  EXPECT_EQ(peak_of(cost, 90, 100), 320 + 8 * 1720 + 300 + 720);
  // Keys of twice the width: a graph of 892, sums of 1,584. The first layer comes last, with the
  // sums of all layers and its own graph.
  EXPECT_EQ(peak_of(wide, 99, 100), 32 + 892 + 30 + 8 * 1584);
}

TEST(AutogradMemory, OfWindowsKeepsWhatSlicesSee) {
  const auto cost = with_recompute(counted_costs({0, 1}), Recompute::kFull);
  const TaskBytes bytes = task_bytes(cost, {{0, 1, 2}}, kAsymmetric, kLengths);
  // A token sees two before it: 3 and 4 from 5 on, 4 and 5 from 6 on.
  EXPECT_EQ(counts(bytes.kv[1]), Counts({24, 0}));
  EXPECT_EQ(counts(bytes.dkv[1]), Counts({16, 0}));
}

/// Layers of kOffload, with a nanosecond for each byte to the host or back.
RecomputingCosts offloading(std::vector<std::uint8_t> kind_of_layer) {
  Costs known = counted_costs(std::move(kind_of_layer));
  known.host.per_byte = 1;
  return with_recompute(known, Recompute::kOffload);
}

TEST(AutogradMemory, OfOffloadingHoldsInTheHostWhatRecomputationHoldsOnTheDevice) {
  const StageLayout layout{{0, 1, 3}};
  const auto cost = offloading({0, 1, 0});
  const auto full = with_recompute(cost, Recompute::kFull);
  const TaskBytes device = task_bytes(cost, layout, kAsymmetric, kLengths);
  const TaskBytes host = table_of(cost, layout).host_bytes(kAsymmetric, kLengths);
  const TaskBytes before = task_bytes(full, layout, kAsymmetric, kLengths);
  const Counts none{0, 0};
  for (const std::size_t stage : {0, 1}) {
    EXPECT_EQ(host.rows[stage], before.rows[stage]);
    EXPECT_EQ(host.kv[stage], before.kv[stage]);
    EXPECT_EQ(host.dkv[stage], before.dkv[stage]);
    for (const auto* of : {&device.rows, &device.kv, &device.dkv})
      EXPECT_EQ(counts((*of)[stage]), none);
    EXPECT_EQ(device.forward_transient[stage], before.forward_transient[stage]);
    EXPECT_EQ(counts(host.forward_transient[stage]), none);
    EXPECT_EQ(counts(host.backward_transient[stage]), none);
  }
  // The first backward opens no sums on the device: of one layer on the first stage 40 bytes less.
  EXPECT_EQ(device.backward_transient[0][0] + Bytes(40), before.backward_transient[0][0]);
  EXPECT_EQ(device.backward_transient[0][1], before.backward_transient[0][1]);
  const TaskBytes nothing = table_of(full, layout).host_bytes(kAsymmetric, kLengths);
  for (const auto* of : {&nothing.rows, &nothing.kv, &nothing.dkv})
    EXPECT_EQ(counts((*of)[1]), none);
}

TEST(AutogradMemory, OfAStageWithSomeOffloadingLayersIsInBothPlaces) {
  Costs known = counted_costs({0, 0, 0});
  known.host.per_byte = 1;
  const auto cost = with_recompute(
      known, RecomputeByLayer{Recompute::kFull, Recompute::kFull, Recompute::kOffload});
  const TaskBytes device = task_bytes(cost, {{0, 3}}, kAsymmetric, kLengths);
  const TaskBytes host = table_of(cost, {{0, 3}}).host_bytes(kAsymmetric, kLengths);
  // 6 tokens of 8 bytes in each layer, 5 of their sums.
  EXPECT_EQ(counts(device.kv[0]), Counts({96, 0}));
  EXPECT_EQ(counts(device.dkv[0]), Counts({80, 0}));
  EXPECT_EQ(counts(host.kv[0]), Counts({48, 0}));
  EXPECT_EQ(counts(host.dkv[0]), Counts({40, 0}));
}

TEST(AutogradTimes, OfOffloadingAddTheWayOfPrefixesAndInputs) {
  const auto cost = offloading({0, 0});
  const StageLayout layout{{0, 1, 2}};
  const TaskTimes times = task_times(cost, layout, kAsymmetric);
  const TaskTimes full = task_times(with_recompute(cost, Recompute::kFull), layout, kAsymmetric);
  // The second forward MicroPack has a prefix of 6 tokens, the first backward one of 5: 8 bytes of
  // keys and values, in backward also 8 bytes of sums to the device and back.
  EXPECT_EQ(counts(times.forward[0]), Counts({60, 60 + 6 * 8}));
  EXPECT_EQ(counts(times.backward[0]), Counts({150 + 5 * 24, 210}));
  // The last stage's inputs, 16 bytes a token.
  EXPECT_EQ(times.backward[1][0], full.backward[1][0] + Nanos(5 * 24 + 5 * 16));
  EXPECT_EQ(times.backward[1][1], full.backward[1][1] + Nanos(7 * 16));
  // A window of 3 tokens sees 2 of the prefix.
  const auto windowed = offloading({0, 1});
  const TaskTimes seen = task_times(windowed, {{0, 1, 2}}, kAsymmetric);
  EXPECT_EQ(seen.backward[1][0], full.backward[1][0] + Nanos(2 * 24 + 5 * 16));
}

TEST(AutogradMemory, OfTheModelCountsEveryParameterOnEveryReplica) {
  const Costs cost = counted_costs({0, 0, 0});
  // 100 of a layer and 40 before it; 200 and 44 after them.
  for (const std::int32_t replicas : {1, 4}) {
    EXPECT_EQ(model_state(cost, kTwoStages, 0, replicas),
              (ModelState{Bytes(560), Bytes(560), Bytes(1120)}));
    EXPECT_EQ(model_state_bytes(cost, kTwoStages, 1, replicas), Bytes(244 * 16));
  }
  EXPECT_EQ(cost.shape.parameters(), 300 + 44);
  EXPECT_EQ(stage_parameters(cost.shape, {{0, 3}}, StageId(0)), 300 + 44);
}

TEST(AutogradMemory, OfTheModelIsSharedOutOrInTheHostWhereTheCostsSaySo) {
  Costs cost = counted_costs({0, 0, 0});
  const auto state = [&](std::int32_t replicas) {
    return model_state(cost, kTwoStages, 0, replicas);
  };
  // 140 parameters: 100 of a layer and 40 before it; 4 bytes each, moments 8.
  cost.shard_replicas = true;
  EXPECT_EQ(state(1), (ModelState{Bytes(560), Bytes(560), Bytes(1120)}));
  // A half beside the gathered whole.
  EXPECT_EQ(state(2), (ModelState{Bytes(840), Bytes(560), Bytes(560)}));
  cost.host.optimizer_per_parameter = 3;
  cost.host.memory = Bytes(5000);
  cost = with_optimizer_on_host(cost);
  EXPECT_EQ(state(2), (ModelState{Bytes(840), Bytes(560), Bytes(0), Bytes(560)}));
  EXPECT_EQ(state(2).total(), Bytes(1400));
  // The last stage has 244 parameters, of which 122 are updated in 3 ns each. Half of its moments,
  // 122 · 8 bytes, are in the host's memory; rows have the rest.
  const StageTable table = table_of(cost, kTwoStages, {.replicas = 2});
  EXPECT_EQ(table.times(kPaired).step_end[1], Nanos(366));
  EXPECT_EQ(table.host_memory(), Bytes(5000 - 976));
  EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost.json"), cost);
}

TEST(AutogradMemory, HasALayerThatRunsAndOneThatTravelsWhereWeightsAreGatheredByLayer) {
  Costs cost = counted_costs({0, 0, 0});
  cost.zero = 3;
  const StageLayout one{{0, 3}};
  const auto state = [&](const StageLayout& layout, std::int32_t replicas) {
    return model_state(cost, layout, 0, replicas);
  };
  EXPECT_EQ(state(one, 1), model_state(counted_costs({0, 0, 0}), one, 0, 1));
  // 344 parameters: three layers of 100, 44 outside of them. Of four replicas each has 86, and 244
  // whole: 330 · 4 bytes of weights and of gradients, 86 · 8 of moments.
  EXPECT_EQ(state(one, 4), (ModelState{Bytes(1320), Bytes(1320), Bytes(688)}));
  // A stage of one layer is whole: 140 parameters, and the share of 70.
  EXPECT_EQ(state(kTwoStages, 2), (ModelState{Bytes(840), Bytes(840), Bytes(560)}));
}

TEST(AutogradTimes, HaveAnExchangeInEveryPassWhereWeightsAreGatheredByLayer) {
  Costs cost = counted_costs({0, 0, 0});
  cost.reduction = {.latency = 10, .per_byte = 2};
  const auto times = [&](std::int32_t zero, Recompute recompute) {
    cost.zero = zero;
    return table_of(with_recompute(cost, recompute), {{0, 3}}, {.replicas = 2}).times(kPaired);
  };
  // 344 parameters of 4 bytes are in four parts. A ring of two ranks passes one half of each on:
  // 4 · 10 + 344 / 2 · 4 · 2 = 1416. The first MicroPack makes keys that
  // others need, so its forward runs.
  for (const Recompute recompute : {Recompute::kNothing, Recompute::kFull}) {
    const TaskTimes whole = times(1, recompute), gathered = times(3, recompute);
    EXPECT_EQ(gathered.forward[0][0] - whole.forward[0][0], Nanos(1416));
    // Weights come for the layers that run again, for their backward, and gradients go.
    const std::int64_t rings = recompute == Recompute::kNothing ? 2 : 3;
    EXPECT_EQ(gathered.backward[0][0] - whole.backward[0][0], Nanos(1416 * rings));
    EXPECT_EQ(gathered.reduce[0], Nanos(0));
    EXPECT_EQ(gathered.step_end[0], whole.step_end[0] / 2);
  }
}

TEST(AutogradMemory, ThatNobodyCanCountIsRefused) {
  Costs cost = counted_costs({0, 0});
  cost.autograd->layers[0].whole.bytes.per_token = 1e300;
  expect_invalid_input(
      [&] {
        (void)task_bytes(with_recompute(cost, Recompute::kFull), {{0, 1, 2}}, kPaired, kLengths);
      },
      {"cannot be counted in 64 bits"});
}

TEST(AutogradCosts, KnowThreeRecomputationsWhereTheHostIsFarAndNoMerging) {
  const Costs cost = counted_costs({0, 1});
  EXPECT_EQ(
      abilities(cost).recomputations,
      (std::vector<Recompute>{Recompute::kNothing, Recompute::kElementwise, Recompute::kFull}));
  EXPECT_TRUE(abilities(cost).knows(Recompute::kElementwise));
  EXPECT_FALSE(abilities(cost).knows(Recompute::kMlp));
  EXPECT_TRUE(abilities(offloading({0, 1})).knows(Recompute::kOffload));
  const auto chosen = with_recompute(cost, Recompute::kFull);
  expect_invalid_input(
      [&] {
        (void)stage_cost(chosen, {{0, 2}}, StageId(0), Pass::kForward, 2);
      },
      {"merging"});
}

TEST(AutogradCosts, KeepGraphsOnStagesAllOfWhoseLayersDo) {
  using enum Recompute;
  const Costs cost = counted_costs({0, 0, 0});
  const AutogradStages first(cost, kTwoStages, {kElementwise, kNothing, kFull}, {});
  EXPECT_TRUE(first.keeps_graphs(StageId(0)));
  EXPECT_FALSE(first.keeps_graphs(StageId(1)));
  EXPECT_TRUE(stage_table(cost, kTwoStages, first.recompute).keeps_graphs());
  const AutogradStages last(cost, kTwoStages, {kFull, kElementwise, kNothing}, {});
  EXPECT_FALSE(last.keeps_graphs(StageId(0)));
  EXPECT_TRUE(last.keeps_graphs(StageId(1)));
}

TEST(AutogradJson, RoundTripsToTheLastBit) {
  Costs cost = counted_costs({0, 1, 0});
  cost.autograd->layers[1].elementwise.bytes.per_window_pair = 1.0 / 3;
  const nlohmann::json file = nlohmann::json::parse(cost_to_json(cost));
  EXPECT_EQ(file["version"], 4);
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json"), cost);
}

TEST(AutogradJson, RefusesWhatIsMissingOrDoesNotBelong) {
  const nlohmann::json good = nlohmann::json::parse(cost_to_json(counted_costs({0, 1})));
  const auto refused = [&](auto change, std::initializer_list<std::string_view> parts) {
    nlohmann::json file = good;
    change(file);
    expect_invalid_input([&] { (void)cost_from_json(file.dump(), "cost.json"); }, parts);
  };
  for (const auto& item : good["autograd"].items())
    refused([&](auto& f) { f["autograd"].erase(item.key()); },
            {"cost.json", "autograd", item.key()});
  for (const auto& item : good["autograd"]["layers"][0].items())
    refused([&](auto& f) { f["autograd"]["layers"][0].erase(item.key()); },
            {"layers[0]", item.key()});
  for (const auto& item : good["autograd"]["layers"][0]["elementwise"].items())
    refused([&](auto& f) { f["autograd"]["layers"][0]["elementwise"].erase(item.key()); },
            {"layers[0]: elementwise", item.key()});
  refused([](auto& f) { f["version"] = 2; }, {"version"});
  refused([](auto& f) { f["version"] = 3; },
          {"cost.json", "version 3", "\"elementwise\"", "profile again"});
  refused([](auto& f) { f.erase("autograd"); }, {"version"});
  refused([](auto& f) { f["row_bytes"] = 1; }, {"row_bytes", "autograd"});
  refused([](auto& f) { f["weight_gradient"]["per_token"] = 1; }, {"weight_gradient"});
  refused([](auto& f) { f["autograd"]["layers"].clear(); }, {"layers", "0 kinds"});
  refused([](auto& f) { f["autograd"]["kind_of_layer"] = {0, 2}; }, {"kind_of_layer", "2"});
  refused([](auto& f) { f["autograd"]["kind_of_layer"] = {1, 0}; }, {"kind_of_layer", "order"});
  refused([](auto& f) { f["autograd"]["kind_of_layer"] = {0, 0}; }, {"kind_of_layer", "1 of 2"});
  refused([](auto& f) { f["autograd"]["kind_of_layer"].clear(); }, {"kind_of_layer", "0 layers"});
  refused([](auto& f) { f["autograd"]["layers"][1]["weights"] = 101; }, {"weights", "101"});
  refused([](auto& f) { f["autograd"]["layers"][0]["kv_bytes"] = -1; }, {"kv_bytes", "-1"});
  refused([](auto& f) { f["autograd"]["state_bytes"]["weights"] = 257; }, {"weights", "257"});
  refused([](auto& f) { f["autograd"]["parameters_shared"] = 41; }, {"parameters_shared", "41"});
  refused(
      [](auto& f) {
        auto& layer = f["autograd"]["layers"][0];
        layer = f["autograd"]["layers"][1];
        layer["window"] = 4;
      },
      {"window", "3", "4"});
}

}  // namespace
}  // namespace slimpack
