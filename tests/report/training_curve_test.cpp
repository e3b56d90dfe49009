#include "slimpack/report/training_curve.h"

#include <gtest/gtest.h>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

const std::string kStep =
    R"({"step": 1, "loss": 5.5, "tokens_per_second": 2000.5, "step_ns": 10, "predicted_step_ns": 9})"
    "\n";
const std::string kEvaluation = R"({"step": 1, "evaluation_loss": 5.25})"
                                "\n";

std::string refusal(const std::string& text) {
  try {
    (void)training_curve_from_lines(text, "metrics.jsonl");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TrainingCurve, HasStepsAndEvaluations) {
  const TrainingCurve curve = training_curve_from_lines(kEvaluation + kStep + kStep, "m");
  EXPECT_EQ(curve, (TrainingCurve{std::vector<CurvePoint>(2, {1, 5.5, 2000.5, Nanos(10), Nanos(9)}),
                                  {{1, 5.25}}}));
}

TEST(TrainingCurve, TellsHeldOutSetsApart) {
  const std::string named = R"({"step": 1, "evaluation_loss": 4, "evaluation_name": "code"})"
                            "\n";
  EXPECT_EQ(training_curve_from_lines(kEvaluation + named, "m").evaluations,
            (std::vector<CurveEvaluation>{{1, 5.25}, {1, 4, "code"}}));
  EXPECT_NE(refusal(R"({"step": 1, "evaluation_loss": 4, "evaluation_name": 3})"
                    "\n")
                .find("evaluation_name"),
            std::string::npos);
}

TEST(TrainingCurve, ALineWithoutItsEndIsNone) {
  EXPECT_EQ(training_curve_from_lines(kStep + R"({"step": 2, "lo)", "m").steps.size(), 1u);
  EXPECT_EQ(training_curve_from_lines("", "m"), TrainingCurve());
}

TEST(TrainingCurve, ADamagedLineIsNamed) {
  EXPECT_NE(refusal(kStep + "{\"step\": 2}\n").find("metrics.jsonl: line 2"), std::string::npos);
  EXPECT_NE(refusal(kStep + "nonsense\n").find("line 2"), std::string::npos);
  EXPECT_NE(refusal("[]\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal(R"({"step": -1, "evaluation_loss": 1})"
                    "\n")
                .find("step"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"step": 1, "evaluation_loss": "low"})"
                    "\n")
                .find("evaluation_loss"),
            std::string::npos);
}

TEST(TrainingCurve, ThinnedKeepsBothEnds) {
  std::vector<CurvePoint> points;
  for (int step = 1; step <= 1000; ++step) points.push_back({step, 0, 0, {}, {}});
  const std::vector<CurvePoint> kept = thinned(points, 4);
  // 999 gaps in three parts: steps 1, 334, 667 and 1,000.
  ASSERT_EQ(kept.size(), 4u);
  EXPECT_EQ(kept[0].step, 1);
  EXPECT_EQ(kept[1].step, 334);
  EXPECT_EQ(kept[2].step, 667);
  EXPECT_EQ(kept[3].step, 1000);
  EXPECT_EQ(thinned(points, 1000), points);
}

}  // namespace
}  // namespace slimpack
