#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "tests/cost/shapes.h"

namespace slimpack {
namespace {

Costs example() {
  Costs cost = cost_from_hardware(testing::llama2_7b(), Dtype::kBf16, HardwareSpec{});
  cost.origin.source = "profile of 8 points";
  cost.kinds.front().forward.per_slice =
      1.0 / 3;  // not a decimal number: must survive all the same
  cost.kinds.front().backward.per_prefix_token = 1e-7;
  cost.ends.embedding_forward = {1, 2};
  cost.ends.embedding_backward = {3, 4};
  cost.optimizer_per_parameter = 0.125;
  cost.origin.fit_error = 0.04;
  cost.tp = 8;
  cost.kinds.front().merge = {
      {{5, 6}, {7, 8}}, {{9, 1.0 / 7}, {11, 12}, {13, 14, 15}, {16, 17, 18}, {}, {19, 20, 21}}};
  cost.reduction.latency = 13;
  cost.reduction.per_byte = 0.02;
  cost.device.memory = Bytes(80'000'000'000);
  cost.device.peak_flops = 989e12;
  cost.host.ranks_per_node = 4;
  cost.zero = 3;
  cost.device.gpu = GpuMemory{132, Bytes(14), Bytes(15), Bytes(16), 4, false};
  cost.kinds.front().again = {{22, 23}, {24, 25}, {26, 1.0 / 27}};
  return cost;
}

std::string refusal(const nlohmann::json& file) {
  try {
    (void)cost_from_json(file.dump(), "cost.json");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "accepted";
}

TEST(CostJson, RoundTripsToTheLastBit) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    Costs cost = example();
    cost.dtype = dtype;
    EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost.json"), cost);
  }
}

TEST(CostJson, KeepsTheModelsRopeScaling) {
  Costs cost = example();
  cost.shape.rope_scaling = {.type = RopeType::kLinear, .factor = 4};
  EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost.json"), cost);
}

TEST(CostJson, ReadsHowManyReplicasOfAStageANodeHeldInOlderFiles) {
  const Costs cost = example();
  auto file = nlohmann::json::parse(cost_to_json(cost));
  file.erase("ranks_per_node");
  file["replicas_per_node"] = 3;
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json").host.ranks_per_node, 3 * cost.tp);
}

TEST(CostJson, RefusesAFileWithoutAnyOneOfItsFields) {
  const auto file = nlohmann::json::parse(cost_to_json(example()));
  for (const auto& item : file.items()) {
    if (item.key() == "weight_gradient" || item.key() == "elementwise" ||
        item.key() == "weight_reading" || item.key() == "ranks_per_node" || item.key() == "zero" ||
        item.key() == "host_per_byte" || item.key() == "host_memory" || item.key() == "gpu" ||
        item.key() == "row_moves" || item.key() == "again")
      continue;  // may be absent
    auto broken = file;
    broken.erase(item.key());
    const std::string message = refusal(broken);
    EXPECT_NE(message.find("cost.json"), std::string::npos) << message;
    EXPECT_NE(message.find(item.key()), std::string::npos) << message;
  }
  for (const auto& figure : file["gpu"].items()) {
    auto broken = file;
    broken["gpu"].erase(figure.key());
    EXPECT_NE(refusal(broken).find(figure.key()), std::string::npos) << figure.key();
  }
  for (const auto& policy : file["again"].items()) {
    auto broken = file;
    broken["again"].erase(policy.key());
    EXPECT_NE(refusal(broken).find(policy.key()), std::string::npos) << policy.key();
  }
  for (const char* part : {"forward", "backward", "elementwise", "weight_gradient",
                           "embedding_forward", "head_backward"}) {
    for (const auto& item : file[part].items()) {
      auto broken = file;
      broken[part].erase(item.key());
      const std::string message = refusal(broken);
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(message.find(item.key()), std::string::npos) << message;
    }
  }
}

TEST(CostJson, RefusesTimesThatWouldOverflow) {
  const auto file = nlohmann::json::parse(cost_to_json(example()));
  for (const auto& [part, key] :
       {std::pair("forward", "per_token"), std::pair("backward", "per_pair"),
        std::pair("head_backward", "per_pack")}) {
    auto broken = file;
    broken[part][key] = 1e300;
    EXPECT_NE(refusal(broken).find(fmt::format("\"{}\" is 1e+300", key)), std::string::npos);
  }
}

TEST(CostJson, KeepsTheShareOfTargetsAndRefusesMoreThanAll) {
  Costs masked = example();
  masked.ends.target_share = 0.25;
  auto file = nlohmann::json::parse(cost_to_json(masked));
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json"), masked);
  for (const double share : {1.01, -0.1}) {
    file["target_share"] = share;
    EXPECT_NE(refusal(file).find("target_share"), std::string::npos);
  }
}

TEST(CostJson, WithoutWeightGradientsBackwardIsNotSplit) {
  auto file = nlohmann::json::parse(cost_to_json(example()));
  ASSERT_NE(example().kinds.front().weight_gradient, EdgeTime());
  file.erase("weight_gradient");
  Costs whole = example();
  whole.kinds.front().weight_gradient = {};
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json"), whole);
  EXPECT_EQ(cost_from_json(cost_to_json(whole), "cost.json"), whole);
}

TEST(CostJson, WithoutElementwiseWorkKeepingEverythingSavesNoTime) {
  auto file = nlohmann::json::parse(cost_to_json(example()));
  ASSERT_NE(example().kinds.front().elementwise, EdgeTime());
  file.erase("elementwise");
  Costs unknown = example();
  unknown.kinds.front().elementwise = {};
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json"), unknown);
  file["elementwise"] = {{"per_pack", 2 * example().kinds.front().backward.per_pack},
                         {"per_token", 0}};
  EXPECT_NE(refusal(file).find("cost.json: elementwise: field \"per_pack\""), std::string::npos)
      << refusal(file);
}

TEST(CostJson, WithoutTheTimeToTheHostNothingIsOffloaded) {
  auto file = nlohmann::json::parse(cost_to_json(example()));
  ASSERT_NE(example().host.per_byte, 0);
  file.erase("host_per_byte");
  Costs unknown = example();
  unknown.host.per_byte = 0;
  EXPECT_EQ(cost_from_json(file.dump(), "cost.json"), unknown);
  file["host_per_byte"] = -1;
  EXPECT_NE(refusal(file).find("field \"host_per_byte\" is -1"), std::string::npos)
      << refusal(file);
}

TEST(CostJson, RefusesWeightGradientsThatAreNoPartOfBackward) {
  Costs cost = example();
  LayerCosts& layer = cost.kinds.front();
  layer.elementwise = {};
  layer.backward.per_pack = 200;
  layer.backward.per_token = 4;
  layer.weight_gradient = {200, 4};  // all of it is the most
  EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost.json"), cost);
  const auto file = nlohmann::json::parse(cost_to_json(cost));
  const auto refused = [&](const nlohmann::json& value, std::string_view said) {
    auto broken = file;
    broken["weight_gradient"] = value;
    const std::string message = refusal(broken);
    EXPECT_NE(message.find(said), std::string::npos) << message;
    EXPECT_NE(message.find("weight_gradient"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  refused({{"per_pack", 201}, {"per_token", 4}},
          "\"per_pack\" is 201, must be at most 200, backward's per_pack; measure again");
  refused({{"per_pack", 200}, {"per_token", 4.5}},
          "\"per_token\" is 4.5, must be at most 4, backward's per_token; measure again");
  refused({{"per_pack", -1}, {"per_token", 4}}, "\"per_pack\" is -1");
  refused({{"per_pack", 1}, {"per_token", "fast"}}, "\"per_token\"");
  refused({{"per_pack", 1}}, "per_token");
  refused(7, "object");
}

TEST(CostJson, RefusesNegativeAndNonNumericCoefficients) {
  const auto file = nlohmann::json::parse(cost_to_json(example()));
  for (const nlohmann::json& bad :
       {nlohmann::json(-1), nlohmann::json("fast"), nlohmann::json(), nlohmann::json(true)}) {
    auto broken = file;
    broken["forward"]["per_pair"] = bad;
    EXPECT_NE(refusal(broken).find("per_pair"), std::string::npos) << refusal(broken);
    broken = file;
    broken["transfer_latency"] = bad;
    EXPECT_NE(refusal(broken).find("transfer_latency"), std::string::npos) << refusal(broken);
  }
}

TEST(CostJson, RefusesOtherFormatsVersionsNumberFormatsAndModels) {
  const auto file = nlohmann::json::parse(cost_to_json(example()));
  auto broken = file;
  broken["format"] = "slimpack-plan";
  EXPECT_NE(refusal(broken).find("slimpack-plan"), std::string::npos);
  broken = file;
  broken["version"] = 3;
  EXPECT_NE(refusal(broken).find("version 3"), std::string::npos);
  broken["version"] = 1;
  EXPECT_NE(refusal(broken).find("profile again"), std::string::npos) << refusal(broken);
  broken = file;
  broken["dtype"] = "fp8";
  EXPECT_NE(refusal(broken).find("\"fp8\"; known are fp32, bf16 and fp64"), std::string::npos);
  broken = file;
  broken["model"]["num_hidden_layers"] = 0;
  EXPECT_NE(refusal(broken).find("cost.json: model"), std::string::npos) << refusal(broken);
}

TEST(CostJson, RefusesImpossibleCountsAndMerges) {
  const auto file = nlohmann::json::parse(cost_to_json(example()));
  const auto refused = [&](const char* key, const nlohmann::json& value, std::string_view said) {
    auto broken = file;
    broken[key] = value;
    EXPECT_NE(refusal(broken).find(said), std::string::npos) << refusal(broken);
  };
  refused("tp", 0, "\"tp\"");
  refused("tp", 1.5, "\"tp\"");
  refused("memory", -1, "\"memory\"");
  refused("ranks_per_node", -1, "\"ranks_per_node\"");
  refused("ranks_per_node", 65537, "\"ranks_per_node\"");
  refused("zero", 0, "\"zero\"");
  refused("zero", 4, "\"zero\"");
  refused("weight_reading", -1, "\"weight_reading\"");
  refused("weight_reading", 1e9, "must be at most");
  refused("peak_flops", -1, "\"peak_flops\"");
  refused("merge", 1, "\"merge\"");
  refused("merge", nlohmann::json::array({1}), "merge[0]");
  auto merge = file["merge"];
  merge[1]["backward"]["per_token"] = -1;
  refused("merge", merge, "merge[1]: backward");
  merge = file["merge"];
  merge[1]["forward"].erase("per_prefix_token");
  refused("merge", merge, "merge[1]: forward");
  merge = file["merge"];
  merge[1]["backward"]["per_key"] = -1;
  refused("merge", merge, "merge[1]: backward");
  merge = nlohmann::json::array();
  for (int k = 0; k < 17; ++k) merge.push_back(file["merge"][0]);
  refused("merge", merge, "17 entries");
}

RC_GTEST_PROP(CostJson, RefusesEveryTruncatedFileInOneLine, ()) {
  const std::string text = cost_to_json(example());
  // The text ends with "}\n": without the brace it is no JSON.
  const auto length = *rc::gen::inRange<std::size_t>(0, text.size() - 1);
  try {
    (void)cost_from_json(std::string_view(text).substr(0, length), "cost.json");
    RC_FAIL("accepted");
  } catch (const InvalidInput& e) {
    RC_ASSERT(std::string(e.what()).find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace slimpack
