#include "slimpack/training/plan_basis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "slimpack/base/file.h"
#include "slimpack/packflow/profile/kept_measurements.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

ProfileOptions small_profile() {
  ProfileOptions options;
  options.shape = slimpack::testing::small_shape(2, true);
  options.context = Tokens(256);
  return options;
}

/// Costs that a profile with these options makes; each call gives another time.
Costs made_up(const ProfileOptions& options, int number) {
  Costs cost;
  cost.origin.source = "made up";
  cost.shape = options.shape;
  cost.dtype = options.dtype;
  cost.optimizer_per_parameter = number;
  cost.origin.measured_on = measured_here(options.device);
  cost.origin.measured_for = options.settings_text();
  return cost;
}

/// Costs of a file, how often they were measured, and the lines of the last call.
class KeptCost : public ::testing::Test {
 protected:
  Costs ask(const ProfileOptions& options) {
    told.clear();
    const int before = measurements;
    const Costs cost = kept_or_measured(
        file, options,
        [&] {
          return FreshCosts{made_up(options, ++measurements), disturbed};
        },
        [this](const std::string& line) { told += line + '\n'; });
    measured = measurements > before;
    return cost;
  }

  const TempFolder folder;
  const std::filesystem::path file = folder / "cost.json";
  std::string told;
  int measurements = 0;
  bool measured = false;
  bool disturbed = false;
};

TEST_F(KeptCost, AreMeasuredOnceAndTakenFromTheFileThen) {
  const Costs first = ask(small_profile());
  EXPECT_TRUE(measured);
  EXPECT_EQ(told, "");
  Costs again = ask(small_profile());
  EXPECT_FALSE(measured) << told;
  EXPECT_NE(told.find("this machine was measured"), std::string::npos) << told;
  EXPECT_NE(told.find(file.string()), std::string::npos) << told;
  again.device.memory = first.device.memory;  // what is free changes
  EXPECT_EQ(again, first);
}

TEST_F(KeptCost, OfOtherSettingsAreMeasuredAnewAndTheFileStays) {
  static_cast<void>(ask(small_profile()));
  const std::string text = read_file(file, "cost file");
  const auto refused = [&](const ProfileOptions& options, const std::string& why) {
    static_cast<void>(ask(options));
    EXPECT_TRUE(measured) << told;
    EXPECT_NE(told.find(why), std::string::npos) << told;
    EXPECT_EQ(read_file(file, "cost file"), text);
  };
  ProfileOptions options = small_profile();
  options.dtype = Dtype::kFp64;
  refused(options, "it is in fp32, this run in fp64");
  options = small_profile();
  options.shape.kinds[0].dense_width *= 2;
  refused(options, "it is of another model");
  options = small_profile();
  options.context = Tokens(128);
  refused(options, "context was 256 when it was measured, here it is 128");
  options = small_profile();
  options.ranks = 2;
  refused(options, "replicas was 1 when it was measured, here it is 2");
  options = small_profile();
  options.clock = ClockKind::kVirtual;
  refused(options, "clock was wall when it was measured, here it is virtual");
}

TEST_F(KeptCost, OfABuildWithOtherKernelsAreMeasuredAnew) {
  ProfileOptions options = small_profile();
  options.gpu = gpu_memory(HardwareSpec());
  Costs cost = ask(options);
  cost.device.gpu = options.gpu;
  write_file(file, cost_to_json(cost));
  static_cast<void>(ask(options));
  EXPECT_FALSE(measured) << told;
  options.gpu->fused_kernels = false;
  static_cast<void>(ask(options));
  EXPECT_TRUE(measured);
  EXPECT_NE(told.find("it is of a build with fused kernels, unlike this one"), std::string::npos)
      << told;
}

TEST_F(KeptCost, OfAnotherMachineOrLibraryAreMeasuredAnew) {
  Costs cost = ask(small_profile());
  cost.origin.measured_on->torch = "1.0.0";
  write_file(file, cost_to_json(cost));
  static_cast<void>(ask(small_profile()));
  EXPECT_TRUE(measured);
  EXPECT_NE(told.find("another machine or torch"), std::string::npos) << told;
}

TEST_F(KeptCost, ThatWereDisturbedAreNotKept) {
  disturbed = true;
  static_cast<void>(ask(small_profile()));
  EXPECT_FALSE(std::filesystem::exists(file));
  disturbed = false;
  static_cast<void>(ask(small_profile()));
  EXPECT_TRUE(measured);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(KeptCost, OfADayAgoAreMeasuredAnewAndReplaced) {
  static_cast<void>(ask(small_profile()));
  namespace fs = std::filesystem;
  const auto ago = [&](std::chrono::hours age) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - age);
  };
  ago(std::chrono::hours(23));
  static_cast<void>(ask(small_profile()));
  EXPECT_FALSE(measured) << told;
  ago(std::chrono::hours(25));
  static_cast<void>(ask(small_profile()));
  EXPECT_TRUE(measured) << told;
  EXPECT_NE(told.find("older than a day"), std::string::npos) << told;
  static_cast<void>(ask(small_profile()));
  EXPECT_FALSE(measured) << told;
}

TEST_F(KeptCost, ThatCannotBeReadAreMeasuredAnewAndTheFileStays) {
  for (const char* text : {"", "no JSON", "{}", R"({"format": "slimpack-cost", "version": 9})"}) {
    write_file(file, text);
    static_cast<void>(ask(small_profile()));
    EXPECT_TRUE(measured);
    EXPECT_NE(told.find("is not used: "), std::string::npos) << told;
    EXPECT_EQ(read_file(file, "cost file"), text);
  }
}

TEST_F(KeptCost, OfAnEarlierVersionDoNotSayForWhichSettingsTheyAre) {
  Costs cost = ask(small_profile());
  cost.origin.measured_for.clear();
  write_file(file, cost_to_json(cost));
  static_cast<void>(ask(small_profile()));
  EXPECT_TRUE(measured);
  EXPECT_NE(told.find("does not say for which settings"), std::string::npos) << told;
}

}  // namespace
}  // namespace slimpack
