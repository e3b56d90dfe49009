#include "slimpack/spec/hardware.h"

#include <gtest/gtest.h>

#include <limits>

#include "slimpack/spec/dtype.h"

namespace slimpack {
namespace {

TEST(Hardware, DefaultsAreValid) {
  EXPECT_TRUE(hardware_errors(HardwareSpec{}).empty());
}

TEST(Hardware, EachBrokenFigureIsNamed) {
  for (const HardwareField& field : hardware_fields()) {
    for (const double bad : {-1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      HardwareSpec hardware;
      hardware.*field.figure = bad;
      const auto errors = hardware_errors(hardware);
      ASSERT_EQ(errors.size(), 1U) << field.name;
      EXPECT_NE(errors[0].find(field.name), std::string::npos) << errors[0];
    }
  }
}

TEST(Hardware, OnlyOverheadAndLatencyMayBeZero) {
  for (const HardwareField& field : hardware_fields()) {
    HardwareSpec hardware;
    hardware.*field.figure = 0;
    const bool may = field.name == "layer_overhead_us" || field.name == "link_latency_us";
    EXPECT_EQ(hardware_errors(hardware).empty(), may) << field.name;
  }
}

TEST(Dtype, HasItsOwnNameAndHuggingFacesName) {
  EXPECT_EQ(to_string(Dtype::kFp32), "fp32");
  EXPECT_EQ(to_string(Dtype::kBf16), "bf16");
  EXPECT_EQ(to_string(Dtype::kFp64), "fp64");
  EXPECT_EQ(hugging_face_name(Dtype::kFp32), "float32");
  EXPECT_EQ(hugging_face_name(Dtype::kBf16), "bfloat16");
  EXPECT_EQ(hugging_face_name(Dtype::kFp64), "float64");
}

}  // namespace
}  // namespace slimpack
