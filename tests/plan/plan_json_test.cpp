#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/plan/plan.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using nlohmann::json;

RC_GTEST_PROP(PlanJson, StepsOfSeveralReplicasRoundTrip, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepPlan plan =
      testing::random_step(rng, 2, testing::MergedAt::kAnywhere,
                           std::array{testing::Zoning::kWhole, testing::Zoning::kZones,
                                      testing::Zoning::kRemapped}[rng.below(3)]);
  RC_ASSERT(check_plan(plan).empty());
  RC_ASSERT(plan_from_json(plan_to_json(plan), "test") == plan);
}

RC_GTEST_PROP(PlanJson, RoundTrips, (std::uint64_t seed)) {
  Rng rng(seed);
  StepPlan plan = testing::random_plan(rng, 3);
  for (std::int32_t l = 0; l < plan.layout.layer_begin.back(); ++l)
    plan.recompute.push_back(all_recomputations()[rng.below(kRecomputations)]);
  RC_ASSERT(check_plan(plan).empty());
  RC_ASSERT(plan_from_json(plan_to_json(plan), "test") == plan);
}

const char* const kPlan =
    R"({"format":"slimpack-plan","version":3,"lengths":[3],"layer_begin":[0,1],)"
    R"("recompute":["mlp"],"replicas":[{"sequences":[0],"forward":[[[0,0,3]]],"backward":[[[0,0,3]]]}]})";

TEST(PlanJson, ReadsThePublishedForm) {
  const StepPlan plan = plan_from_json(kPlan, "test");
  EXPECT_EQ(plan.lengths, SequenceLengths{Tokens(3)});
  EXPECT_EQ(plan.recompute, RecomputeByLayer{Recompute::kMlp});
  const MicroPack whole{{{SequenceId(std::int32_t{0}), Tokens(0), Tokens(3)}}};
  EXPECT_EQ(plan.replicas.at(0).packs, (PackPlan{{whole}, {whole}}));
  EXPECT_TRUE(check_plan(plan).empty());
}

std::string error_of(const json& changed) {
  try {
    (void)plan_from_json(changed.dump(), "plan.json");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "";
}

TEST(PlanJson, SaysWhatAnOlderVersionLacks) {
  json changed = json::parse(kPlan);
  changed["version"] = 2;
  EXPECT_NE(error_of(changed).find("what each layer computes again, version 3 does; plan again"),
            std::string::npos)
      << error_of(changed);
}

TEST(PlanJson, NamesEveryMissingField) {
  for (const char* key : {"format", "version", "lengths", "layer_begin", "recompute", "replicas"}) {
    json changed = json::parse(kPlan);
    changed.erase(key);
    EXPECT_NE(error_of(changed).find(key), std::string::npos) << key;
  }
  for (const char* key : {"sequences", "forward", "backward"}) {
    json changed = json::parse(kPlan);
    changed["replicas"][0].erase(key);
    EXPECT_NE(error_of(changed).find(key), std::string::npos) << key;
    EXPECT_NE(error_of(changed).find("replicas[0]"), std::string::npos) << key;
  }
}

TEST(PlanJson, RefusesWrongTypesAndRanges) {
  const std::vector<std::pair<const char*, json>> cases = {
      {"/format", "other"},
      {"/version", 1},
      {"/lengths", 3},
      {"/lengths/0", 0},
      {"/lengths/0", 1.5},
      {"/lengths/0", 1LL << 31},
      {"/layer_begin/0", -1},
      {"/layer_begin/1", "1"},
      {"/recompute", "mlp"},
      {"/recompute/0", "none"},
      {"/recompute/0", 1},
      {"/version", 2},
      {"/replicas", json::object()},
      {"/replicas/0", 1},
      {"/replicas/0/sequences/0", -1},
      {"/replicas/0/sequences/0", 1LL << 31},
      {"/replicas/0/forward/0", 0},
      {"/replicas/0/forward/0/0", json::array({0, 0})},
      {"/replicas/0/forward/0/0/0", -1},
      {"/replicas/0/backward/0/0/1", -1},
      {"/replicas/0/backward/0/0/2", true},
      {"/replicas/0/backward/0/0/2", 18446744073709551615ULL},
  };
  for (const auto& [place, value] : cases) {
    json changed = json::parse(kPlan);
    changed[json::json_pointer(place)] = value;
    const std::string error = error_of(changed);
    EXPECT_EQ(error.rfind("plan.json", 0), 0U) << place << " " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << place;
  }
}

TEST(PlanJson, RefusesCutText) {
  const std::string text = kPlan;
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW((void)plan_from_json(text.substr(0, length), "test"), InvalidInput) << length;
}

}  // namespace
}  // namespace slimpack
