#include "slimpack/report/report_source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "tests/report/report_steps.h"

namespace slimpack {
namespace {

/// A folder of its own that goes with the test.
class ReportSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const PlanFile file = testing::planned_file();
    write_file(folder_ / kPlanName, plan_file_to_json(file.step, file.cost, file.limits));
    write_file(folder_ / kMeasuredName,
               measured_step_to_json(testing::measured_twice_as_long(file)));
    write_file(folder_ / kMetricsName, "");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] static std::string refusal(const std::filesystem::path& path) {
    try {
      (void)read_report_source(path);
    } catch (const InvalidInput& e) {
      return e.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

TEST_F(ReportSourceTest, AFolderHasPlanMeasurementAndCurve) {
  const ReportSource source = read_report_source(folder_);
  EXPECT_EQ(source.name, folder_.string());
  EXPECT_EQ(source.measured->step, 3);
  EXPECT_TRUE(source.curve);
  EXPECT_EQ(source.limits(), *testing::planned_file().limits);
}

TEST_F(ReportSourceTest, APlanFileIsEnough) {
  const ReportSource source = read_report_source(folder_ / kPlanName);
  EXPECT_FALSE(source.measured);
  EXPECT_FALSE(source.curve);
  EXPECT_EQ(source.plan.step.plan, testing::planned_file().step.plan);
}

TEST_F(ReportSourceTest, EveryFileThatIsMissingOrDamagedIsNamed) {
  EXPECT_NE(refusal(folder_ / "nothing").find("nothing"), std::string::npos);
  for (const char* name : {kPlanName, kMeasuredName, kMetricsName}) {
    const std::string text = read_file(folder_ / name, "file");
    write_file(folder_ / name, "{\n");
    EXPECT_NE(refusal(folder_).find(name), std::string::npos);
    std::filesystem::remove(folder_ / name);
    EXPECT_NE(refusal(folder_).find(name), std::string::npos);
    write_file(folder_ / name, text);
  }
  EXPECT_EQ(refusal(folder_), "accepted");
}

}  // namespace
}  // namespace slimpack
