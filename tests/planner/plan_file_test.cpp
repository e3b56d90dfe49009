#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "slimpack/base/error.h"
#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

using nlohmann::json;

std::string small_file() {
  const Costs cost = testing::small_cost();
  const PlanRequest request{.lengths = {Tokens(300), Tokens(90), Tokens(20)}, .pp = 2};
  return plan_file_to_json(*plan_step(request, cost).step, cost);
}

std::string error_of(const json& changed) {
  try {
    (void)plan_file_from_json(changed.dump(), "plan.json");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "";
}

TEST(PlanFile, NamesMissingParts) {
  const json good = json::parse(small_file());
  EXPECT_EQ(error_of(good), "");
  for (const char* key : {"format", "version", "plan", "schedules", "speed", "cost"}) {
    json changed = good;
    changed.erase(key);
    EXPECT_NE(error_of(changed).find(key), std::string::npos) << key;
  }
}

TEST(PlanFile, RefusesPartsThatDoNotBelongTogether) {
  const json good = json::parse(small_file());
  const std::string schedule = good["schedules"][0];
  const std::string first_stage = schedule.substr(0, schedule.find('\n') + 1);
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"/plan/lengths/0", 301, "not a correct plan"},
      {"/plan/layer_begin", json::array({0, 3, 7}), "recompute has 6 entries for 7 layers"},
      {"/cost/model/num_hidden_layers", 7, "divides 6 layers, its cost model has 7"},
      {"/plan/layer_begin", json::array({0, 2, 4, 6}), "has 2 ranks, the plan has 3"},
      {"/schedules/0", first_stage, "has 1 ranks, the plan has 2"},
      {"/plan/stages_per_rank", 3, "2 stages cannot sit on ranks of 3 stages each"},
      {"/plan/stages_per_rank", 2, "one rank has 2 stages"},
      {"/plan/stages_per_rank", 0, "stages_per_rank"},
      {"/schedules/0", "0F0\n1F0\n", "not a correct schedule"},
      {"/schedules/0", "0F0,x\n", "\"x\" is no action"},
      {"/schedules/0", 3, "schedules[0] must be text"},
      {"/schedules", json::array(), "0 schedules for 1 replicas"},
      {"/plan/recompute", "some", "\"recompute\" must be an array"},
      {"/plan/recompute/2", "some", "recompute[2] is \"some\"; known are \"nothing\""},
      {"/plan/recompute/2", 7, "recompute[2] is 7; known are"},
      {"/plan/recompute", json::array({"mlp"}), "recompute has 1 entries for 6 layers"},
      {"/version", 2, "version 2 says one recomputation for all layers"},
      {"/version", 4, "version 4 is not known"},
      {"/speed", json::array({json::array({1.0})}), "speed[0] has 1 entries, the plan has 2"},
      {"/speed", json::array({json::array({1.0, 0})}), "must be a number above 0"},
      {"/speed", json::array({1.0}), "speed[0] must be an array"},
      {"/speed", json::array({json::array({1e-300, 1.0})}), "correct the cost model's times"},
      {"/cost/forward/per_pair", 1e300, "no time, rate or error is above 1e+30"},
      {"/cost/forward/per_pair", 1e30, "correct the cost model's times"},
      {"/cost/row_bytes", 1e300, "no time, rate or error is above 1e+30"},
      {"/cost/row_bytes", 1e30, "cannot be counted in 64 bits"},
      {"/cost", json::object(), "plan.json: cost"},
      {"/plan", json::array(), "plan.json: plan"},
  };
  for (const auto& [place, value, words] : cases) {
    json changed = good;
    changed[json::json_pointer(place)] = value;
    EXPECT_NE(error_of(changed).find(words), std::string::npos)
        << place << ": " << error_of(changed);
  }
  json two = good;
  two["plan"]["replicas"].push_back(
      {{"sequences", json::array()}, {"forward", json::array()}, {"backward", json::array()}});
  EXPECT_NE(error_of(two).find("1 schedules for 2 replicas"), std::string::npos) << error_of(two);
}

TEST(PlanFile, KeepsSeveralStagesOfARank) {
  const Costs cost = testing::small_cost();
  const PlanRequest request{
      .lengths = {Tokens(300), Tokens(90), Tokens(20)}, .pp = 2, .context = Tokens(300)};
  RatedPlan step = baseline_step(packed_baseline(), request, cost);
  step.plan.layout = {{0, 1, 3, 4, 6}, StagePlacement::looped(2, 2)};
  step.schedules = {sliced_one_f_one_b(step.plan.replicas[0].packs, 2, 2, 2)};
  step.prediction = predict(step, cost);
  const PlanFile read = plan_file_from_json(plan_file_to_json(step, cost), "plan.json");
  EXPECT_EQ(read.step.plan, step.plan);
  EXPECT_EQ(read.step.schedules, step.schedules);
  EXPECT_EQ(read.step.prediction.busy.size(), 2U);
  EXPECT_EQ(read.step.prediction.makespan, step.prediction.makespan);
  EXPECT_EQ(check_lowered(read.step.plan, read.step.lowered), std::vector<std::string>{});
}

TEST(PlanFile, RefusesASplitBackwardWhosePartsHaveNoTimes) {
  json split = json::parse(small_file());
  auto& schedule = split["schedules"][0].get_ref<std::string&>();
  schedule = std::regex_replace(schedule, std::regex("([0-9]+)B([0-9]+)"), "$1I$2,$1W$2");
  EXPECT_EQ(error_of(split), "");
  split["cost"].erase("weight_gradient");
  EXPECT_NE(error_of(split).find("has no weight_gradient"), std::string::npos) << error_of(split);
}

TEST(PlanFile, RefusesRowsThatAreOffloadedInNoKnownTime) {
  json offloading = json::parse(small_file());
  offloading["plan"]["recompute"][3] = "offload";
  EXPECT_NE(error_of(offloading).find("has no host_per_byte"), std::string::npos)
      << error_of(offloading);
  offloading["cost"]["host_per_byte"] = 0.02;
  EXPECT_EQ(error_of(offloading), "");
}

TEST(PlanFile, RefusesCutText) {
  const std::string text = small_file();
  for (std::size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_THROW((void)plan_file_from_json(text.substr(0, length), "test"), InvalidInput);
}

}  // namespace
}  // namespace slimpack
