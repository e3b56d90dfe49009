#include "slimpack/cost/trained_part.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/cost/parameter_counts.h"
#include "slimpack/cost/reduction.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"
#include "tests/support/counted_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::counted_costs;

const StageLayout kTwoStages{{0, 1, 3}};
constexpr StageId kLast{std::int32_t{1}};

/// Adapters of 10 parameters of 6 bytes in each layer of 100, which nothing else trains beside.
Costs counted_adapters() {
  Costs cost = counted_costs({0, 0, 0});
  cost.trained = {.kinds = {{.parameters = 10, .weights = 8}}, .weight_bytes = 6};
  cost.reduction = {.latency = 7, .per_byte = 0.25};
  return cost;
}

/// Adapters of 10 parameters beside each of seven layers of 3008, in fp32; the model is in bf16.
Costs packflow_adapters() {
  Costs cost = testing::round_model_of_replicas();
  cost.shape.set_layers(7);
  cost.dtype = Dtype::kBf16;
  cost.trained = {.kinds = {{.parameters = 10, .weights = 10}}, .weight_bytes = 4};
  return cost;
}

TEST(TrainedPart, AloneHasGradientsAndOptimizerState) {
  // Stage 0: 40 + 100 parameters, 10 of them trained: 130 · 4 + 10 · 6 bytes of weights. Stage 1:
  // 200 + 44, 20 of them trained.
  EXPECT_EQ(model_state(counted_adapters(), kTwoStages, 0, 4),
            (ModelState{Bytes(580), Bytes(40), Bytes(80)}));
  EXPECT_EQ(model_state(counted_adapters(), kTwoStages, 1, 4),
            (ModelState{Bytes(224 * 4 + 120), Bytes(80), Bytes(160)}));
  EXPECT_EQ(model_parameters(counted_adapters()), (ParameterCount{344 - 30, 30}));
}

TEST(TrainedPart, OfTiedEndsCountsOnceWhereOneStageHasBoth) {
  Costs cost = counted_adapters();
  cost.trained->edges = {.before = 40, .after = 40, .shared = 40};
  EXPECT_EQ(model_parameters(cost), (ParameterCount{344 - 70, 70}));
  EXPECT_EQ(stage_parameters(cost, kTwoStages, kLast), (ParameterCount{244 - 60, 60}));
}

TEST(TrainedPart, AloneIsReducedAndUpdated) {
  TaskTimes times = task_times(counted_adapters(), kTwoStages, {}, {4, {}});
  // 2 ns for each of 10 and 20 parameters. Two rings of three steps, each 7 ns and a quarter of 40
  // or 80 bytes at 0.25 ns. The tied embedding is frozen and travels nowhere.
  EXPECT_EQ(times.step_end, (std::vector{Nanos(20), Nanos(40)}));
  EXPECT_EQ(times.reduce, (std::vector{Nanos(57), Nanos(72)}));
  // With a trained one 160 bytes more take 5 + 80 ns between the stages, and 60 in the ring.
  Costs tied = counted_adapters();
  tied.trained->edges = {.before = 40, .after = 40, .shared = 40};
  times = task_times(tied, kTwoStages, {}, {4, {}});
  EXPECT_EQ(times.reduce, (std::vector{Nanos(57 + 60 + 85), Nanos(72 + 60 + 85)}));
}

TEST(TrainedPart, IsBesideAModelThatPackFlowRuns) {
  // The last stage: 6 · 3008 + 1020 = 19,068 frozen parameters and 60 trained ones, which need no
  // second copy.
  const StageLayout layout{{0, 1, 7}};
  EXPECT_EQ(model_state(packflow_adapters(), layout, 1, 4),
            (ModelState{Bytes(19068 * 2 + 240), Bytes(240), Bytes(15 * 8)}));
  Costs shared = packflow_adapters();
  shared.zero = 3;
  // A quarter of either, and two buckets: 4767 + 2 · 3008, and 15 + 2 · 10.
  EXPECT_EQ(model_state(shared, layout, 1, 4),
            (ModelState{Bytes(10783 * 2 + 140), Bytes(140), Bytes(15 * 8)}));
}

TEST(TrainedPart, TravelsAlone) {
  Costs cost = packflow_adapters();
  // A layer's bucket: 40 bytes, of which three quarters leave at 0.25 ns; a round takes 7 ns. The
  // other buckets are frozen.
  EXPECT_DOUBLE_EQ(reduction_after(cost, kTwoStages, kLast, 4, 0), 2 * 14.5);
  EXPECT_DOUBLE_EQ(parameter_gathering(cost, kTwoStages, kLast, 4), 2 * 14.5);
  cost.zero = 3;  // weights of all: 2 · 3008 · 2 + 40 bytes, and 1020 · 2
  EXPECT_DOUBLE_EQ(shared_state_traffic(cost, kTwoStages, kLast, 4, Pass::kForward),
                   3 * 7 + 0.1875 * (2 * (6016 + 40) + 2040));
}

TEST(TrainedPart, AloneHasWeightGradientsInTheStepsFlops) {
  // Layers of 90 weights, 8 of them trained: a token has 2 · (90 + 90 + 8) FLOPs in products, and
  // 16 in attention for its own pair (4 · 4) three times. The head has 40 weights and no gradient.
  EXPECT_DOUBLE_EQ(model_flops(counted_adapters(), {Tokens(1)}).count(),
                   3 * (2 * 188 + 3 * 16) + 2 * 2 * 40);
  Costs masked = counted_adapters();
  masked.ends.target_share = 0.5;
  masked.trained->edges.after = 4;  // the final norm: fewer weights than the head
  EXPECT_DOUBLE_EQ(model_flops(masked, {Tokens(1)}).count(),
                   3 * (2 * 188 + 3 * 16) + 0.5 * 2 * (2 * 40 + 4));
}

TEST(TrainedPart, IsKeptInAFileThatOlderProgramsRefuse) {
  for (const Costs& cost : {counted_adapters(), packflow_adapters()}) {
    const std::string text = cost_to_json(cost);
    EXPECT_EQ(cost_from_json(text, "cost.json"), cost);
    EXPECT_EQ(nlohmann::json::parse(text)["version"], 5);
  }
}

TEST(TrainedPart, OfAFileIsNoLargerThanTheModel) {
  const auto file = nlohmann::json::parse(cost_to_json(counted_adapters()));
  const auto expect_refused = [&](const char* field, const nlohmann::json& value,
                                  std::string_view message) {
    auto broken = file;
    broken[nlohmann::json::json_pointer(field)] = value;
    expect_invalid_input([&] { (void)cost_from_json(broken.dump(), "cost.json"); }, {message});
  };
  expect_refused("/trained/layers/0/parameters", 101,
                 "layers[0]: field \"parameters\" is 101, allowed are 0 to 100");
  expect_refused("/trained/layers/0/weights", 11,
                 "layers[0]: field \"weights\" is 11, allowed are 0 to 10");
  expect_refused("/trained/before", 41, "field \"before\" is 41, allowed are 0 to 40");
  // Both ends have 44 parameters together, of which 40 are tied.
  auto twice = file["trained"];
  twice.update({{"before", 40}, {"after", 41}, {"shared", 36}});
  expect_refused("/trained", twice, "field \"shared\" is 36, allowed are 37 to 40");
  expect_refused("/trained/shared", 1, "field \"shared\" is 1, allowed are 0 to 0");
  expect_refused(
      "/trained/weight_bytes", 257,
      "\"weight_bytes\" is 257 bytes of a parameter, must be at most 256; profile again");
  expect_refused("/trained/layers", nlohmann::json::array(),
                 "\"layers\" has 0 entries, the model has 1 kinds of layers; profile again");
  expect_refused("/version", 4, "version 4 is not known; this program reads version 5");
}

}  // namespace
}  // namespace slimpack
