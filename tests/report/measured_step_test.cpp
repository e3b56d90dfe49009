#include "slimpack/report/measured_step.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "tests/report/report_steps.h"

namespace slimpack {
namespace {

using nlohmann::json;

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "accepted";
}

std::string refusal_of(const json& changed) {
  return refusal([&] { (void)measured_step_from_json(changed.dump(), "measured.json"); });
}

TEST(MeasuredStep, ReadsAsItIsWritten) {
  MeasuredStep step = testing::measured_twice_as_long(testing::planned_file());
  step.clock = ClockKind::kVirtual;
  EXPECT_EQ(measured_step_from_json(measured_step_to_json(step), "m"), step);
  step.compared = {ClockKind::kWall,
                   {"slimpack", {Nanos(5)}, {0.1}, 0.1, Bytes(7)},
                   {"packed", {Nanos(6)}, {0.2}, 0.3, Bytes(8)}};
  EXPECT_EQ(measured_step_from_json(measured_step_to_json(step), "m"), step);
}

TEST(MeasuredStep, EveryMissingFieldIsNamed) {
  const MeasuredStep step = testing::measured_twice_as_long(testing::planned_file());
  const json whole = json::parse(measured_step_to_json(step));
  for (const auto& [key, value] : whole.items()) {
    json changed = whole;
    changed.erase(key);
    const std::string message = refusal_of(changed);
    EXPECT_NE(message.find("measured.json"), std::string::npos) << message;
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST(MeasuredStep, WrongValuesAreNamed) {
  const MeasuredStep step = testing::measured_twice_as_long(testing::planned_file());
  const json whole = json::parse(measured_step_to_json(step));
  const auto with = [&](const char* key, json value) {
    json changed = whole;
    changed[key] = std::move(value);
    return refusal_of(changed);
  };
  EXPECT_NE(with("version", 2).find("version"), std::string::npos);
  EXPECT_NE(with("format", "slimpack-plan-file").find("format"), std::string::npos);
  EXPECT_NE(with("clock", "moon").find("\"moon\""), std::string::npos);
  EXPECT_NE(with("step", 0).find("step"), std::string::npos);
  EXPECT_NE(with("sequences", json::array({{1, 2}})).find("sequences[0]"), std::string::npos);
  EXPECT_NE(with("sequences", json::array({{1, 2, 0}})).find("sequences[0][2]"), std::string::npos);
}

TEST(MeasuredStep, OfAnotherStepIsRefused) {
  const PlanFile file = testing::planned_file();
  const MeasuredStep right = testing::measured_twice_as_long(file);
  const auto refused = [&](const MeasuredStep& step) {
    return refusal([&] { require_measured_of(file.step.plan, step, "measured.json"); });
  };
  EXPECT_EQ(refused(right), "accepted");
  MeasuredStep wrong = right;
  wrong.sequences.front().length += Tokens(1);
  EXPECT_NE(refused(wrong).find("sequences"), std::string::npos);
  wrong = right;
  wrong.timeline = with_tensor_ranks(right.timeline, 2);
  EXPECT_EQ(refused(wrong), "accepted");  // a plan counts a stage's tensor-parallel ranks as one
  wrong.timeline.replicas = 1;
  EXPECT_NE(refused(wrong).find("ranks"), std::string::npos);
  for (const std::int32_t pack : {-1, 100'000}) {
    wrong = right;
    wrong.timeline.spans.front().kind = SpanKind::kForward;
    wrong.timeline.spans.front().pack = PackId(pack);
    EXPECT_NE(refused(wrong).find("MicroPack " + std::to_string(pack)), std::string::npos);
  }
}

TEST(PlanLimits, StayWithThePlanFile) {
  const PlanFile file = testing::planned_file();
  const PlanFile read =
      plan_file_from_json(plan_file_to_json(file.step, file.cost, file.limits), "plan.json");
  EXPECT_EQ(read.limits, file.limits);
  EXPECT_EQ(plan_file_from_json(plan_file_to_json(file.step, file.cost), "plan.json").limits,
            std::nullopt);
  json changed = json::parse(plan_file_to_json(file.step, file.cost, file.limits));
  changed["limits"]["recompute"] = {"much"};
  EXPECT_NE(
      refusal([&] { (void)plan_file_from_json(changed.dump(), "plan.json"); }).find("\"much\""),
      std::string::npos);
}

TEST(PlanLimits, OfAPlanAloneAreWhatItShows) {
  const PlanFile file = testing::planned_file();
  const PlanLimits shown = limits_shown_by(file.step);
  EXPECT_EQ(shown.context, *std::ranges::max_element(file.step.plan.lengths));
  EXPECT_EQ(shown.memory_cap, std::nullopt);
  EXPECT_EQ(shown.recompute, std::vector{Recompute::kElementwise});
  EXPECT_EQ(shown.backward, BackwardKind::kWhole);
}

}  // namespace
}  // namespace slimpack
