#include "slimpack/packflow/profile/kept_measurements.h"

#include <gtest/gtest.h>

#include "slimpack/base/file.h"
#include "slimpack/packflow/profile/profile.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

TEST(KeptMeasurements, AreThereForTheSameJobOnly) {
  const TempFolder folder;
  const auto file = folder.path() / "cost.json.partial";
  KeptMeasurements first(file, "a job");
  EXPECT_FALSE(first.goes_on());
  first.add("layer", {1, 2.5});
  first.add("head", {0.1});
  EXPECT_EQ(first.find("layer"), nullptr);  // what it measured itself is no earlier profile's
  const KeptMeasurements again(file, "a job");
  EXPECT_TRUE(again.goes_on());
  ASSERT_NE(again.find("layer"), nullptr);
  EXPECT_EQ(*again.find("layer"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(*again.find("head"), (std::vector<double>{0.1}));
  EXPECT_EQ(again.find("embedding"), nullptr);
  EXPECT_FALSE(KeptMeasurements(file, "another job").goes_on());
  again.remove();
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(KeptMeasurements, CountDamagedFilesAsNothing) {
  const TempFolder folder;
  const auto file = folder.path() / "cost.json.partial";
  for (const char* text :
       {"", "{", "[]", R"({"format": "slimpack-cost", "version": 1})",
        R"({"format": "slimpack-measurements", "version": 99, "job": "a", "parts": {}})",
        R"({"format": "slimpack-measurements", "version": 1, "job": "a", "parts": {"x": "y"}})",
        R"({"format": "slimpack-measurements", "version": 1, "job": "a", "parts": {"x": [{}]}})"}) {
    write_file(file, text);
    EXPECT_FALSE(KeptMeasurements(file, "a").goes_on()) << text;
  }
}

ProfileOptions small_profile() {
  ProfileOptions options;
  options.shape = slimpack::testing::small_shape(2, true);
  options.context = Tokens(256);
  options.budget = from_seconds(0.1);
  return options;
}

TEST(Profile, GoesOnWithThePartsThatWereMeasured) {
  const TempFolder folder;
  const auto file = folder.path() / "cost.json.partial";
  ProfileOptions options = small_profile();
  KeptMeasurements stopped(file, options.job_text());
  stopped.add("optimizer", {12345});
  stopped.add("embedding", {1, 2, 3, 4});
  KeptMeasurements kept(file, options.job_text());
  options.kept = &kept;
  const Costs cost = profile_costs(options);
  EXPECT_EQ(cost.optimizer_per_parameter, 12345);
  EXPECT_EQ(cost.ends.embedding_forward, (EdgeTime{1, 2}));
  EXPECT_EQ(cost.ends.embedding_backward, (EdgeTime{3, 4}));
  // All of it is kept now: the next profile measures nothing and finds the same.
  KeptMeasurements whole(file, options.job_text());
  options.kept = &whole;
  options.on_run = [](std::string_view part, std::int64_t, std::int64_t) {
    ADD_FAILURE() << part << " was measured again";
  };
  Costs again = profile_costs(options);
  again.device.memory = cost.device.memory;  // what is free changes
  EXPECT_EQ(again, cost);
}

TEST(Profile, OfAnotherModelIsAnotherJob) {
  ProfileOptions options = small_profile();
  const std::string job = options.job_text();
  options.shape.kinds[0].hidden_size *= 2;
  EXPECT_NE(options.job_text(), job);
  options = small_profile();
  options.dtype = Dtype::kBf16;
  EXPECT_NE(options.job_text(), job);
}

TEST(MeasuredHere, NamesTheProcessorTheDeviceAndTheLibrary) {
  const TempFolder root;
  put_file(root / "proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU 9000\n");
  const MeasuredOn here = measured_here(c10::kCPU, root.path());
  EXPECT_EQ(here.processor, "Fast CPU 9000");
  EXPECT_EQ(here.device, "cpu");
  EXPECT_TRUE(here.torch.starts_with("2."));
  EXPECT_EQ(measured_here(c10::kCPU, root.path() / "nowhere").processor, "unknown");
}

TEST(MeasuredHere, RefusesCostsOfAnotherMachineOrLibrary) {
  Costs cost;
  require_measured_here(cost, c10::kCPU, "cost.json");  // nobody measured them
  cost.origin.measured_on = measured_here(c10::kCPU);
  require_measured_here(cost, c10::kCPU, "cost.json");
  cost.origin.measured_on->torch = "1.0.0";
  expect_invalid_input([&] { require_measured_here(cost, c10::kCPU, "cost.json"); },
                       {"cost.json", "torch 1.0.0", "slimpack profile"});
  cost.origin.measured_on = MeasuredOn{"Fast CPU 9000", "cpu", measured_here(c10::kCPU).torch};
  expect_invalid_input([&] { require_measured_here(cost, c10::kCPU, "cost.json"); },
                       {"Fast CPU 9000"});
}

}  // namespace
}  // namespace slimpack
