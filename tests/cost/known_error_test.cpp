#include "slimpack/cost/known_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slimpack {
namespace {

Costs on(bool gpu, bool measured) {
  Costs cost;
  if (gpu) cost.device.gpu.emplace();
  if (measured) cost.origin.measured_on.emplace();
  return cost;
}

// docs/prediction.md: the published steps that hardware files alone predict are 18.0% off, the
// worst of them 43.9%.
TEST(KnownError, OfHardwareFilesIsThatOfPublishedSteps) {
  for (const bool gpu : {false, true}) {
    EXPECT_EQ(known_error(on(gpu, false)).time, 18);
    EXPECT_EQ(known_error(on(gpu, false)).worst_time, 44);
  }
  EXPECT_EQ(time_range(known_error(on(true, false))), "± 18%");
}

TEST(KnownError, OfProfilesIsSmallerAndDependsOnTheDevice) {
  EXPECT_EQ(known_error(on(false, true)).time, 5);
  EXPECT_EQ(known_error(on(true, true)).time, 10);
  Costs fitted;
  fitted.origin.fit_error = 0.02;  // of a file that does not say where it was measured
  EXPECT_EQ(known_error(fitted).time, 5);
}

TEST(KnownError, OfMemoryDependsOnTheDeviceAndTheRuntime) {
  for (const bool measured : {false, true}) {
    EXPECT_EQ(known_error(on(false, measured)).memory, 0.8);
    EXPECT_EQ(known_error(on(true, measured)).memory, 11);
  }
  Costs layers = on(false, true);
  layers.autograd.emplace();
  EXPECT_EQ(known_error(layers).memory, 9);
}

TEST(KnownError, OfLayersUnderAutogradIsThatOfAHardwareFileWhereNothingWasMeasured) {
  Costs layers = on(true, false);
  layers.autograd.emplace();
  EXPECT_EQ(known_error(layers).time, 18);
  layers.origin.fit_error = 0.02;
  EXPECT_EQ(known_error(layers).time, 4);
}

TEST(KnownError, IsDataAndWords) {
  const KnownError error = known_error(on(true, false));
  const std::string text = describe(error);
  for (const char* part : {"times ± 18% on average, 44% at worst", "memory 11%"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const nlohmann::json json = to_json(error);
  EXPECT_DOUBLE_EQ(json.at("time").get<double>(), 0.18);
  EXPECT_DOUBLE_EQ(json.at("memory").get<double>(), 0.11);
  EXPECT_EQ(json.at("times_from"), error.times_from);
}

}  // namespace
}  // namespace slimpack
