#include "slimpack/spec/hardware.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "slimpack/base/file.h"
#include "slimpack/spec/dtype.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

TEST(Hardware, DefaultsAreValid) {
  EXPECT_TRUE(hardware_errors(HardwareSpec{}).empty());
}

/// Sets a figure of any type; whole numbers drop what they cannot hold.
void set(HardwareSpec& hardware, const HardwareField& field, double value) {
  if (const auto* real = std::get_if<double HardwareSpec::*>(&field.figure))
    hardware.** real = value;
  else if (const auto* bytes = std::get_if<Bytes HardwareSpec::*>(&field.figure))
    hardware.** bytes = Bytes(static_cast<std::int64_t>(value));
  else if (const auto* flag = std::get_if<bool HardwareSpec::*>(&field.figure))
    hardware.** flag = value != 0;
  else
    hardware.*std::get<std::int32_t HardwareSpec::*>(field.figure) =
        static_cast<std::int32_t>(value);
}

TEST(Hardware, EachBrokenFigureIsNamed) {
  for (const HardwareField& field : hardware_fields()) {
    if (std::holds_alternative<bool HardwareSpec::*>(field.figure)) continue;  // never broken
    std::vector<double> bad{-1};
    if (std::holds_alternative<double HardwareSpec::*>(field.figure))
      bad.insert(bad.end(), {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()});
    for (const double value : bad) {
      HardwareSpec hardware;
      set(hardware, field, value);
      const auto errors = hardware_errors(hardware);
      ASSERT_EQ(errors.size(), 1U) << field.name;
      EXPECT_NE(errors[0].find(field.name), std::string::npos) << errors[0];
    }
  }
}

TEST(Hardware, FlashAttentionIsARelease) {
  for (const std::int32_t release : {1, 2, 4, 5}) {
    HardwareSpec hardware;
    hardware.flash_attention = release;
    const auto errors = hardware_errors(hardware);
    ASSERT_EQ(errors.empty(), release == 2 || release == 4);
    if (errors.empty()) continue;
    EXPECT_EQ(errors[0], fmt::format("hardware.flash_attention is {}, must be 2, 3 or 4", release));
  }
}

TEST(Hardware, OnlyOverheadsLatenciesAndTheWayToTheHostMayBeZero) {
  const std::set<std::string_view> may_be_zero{
      "linear_half_rows",    "attention_slice_us",   "attention_token_head_ns",
      "forward_overhead_us", "backward_overhead_us", "node_link_latency_us",
      "link_latency_us",     "host_bandwidth",       "fused_kernels"};
  for (const HardwareField& field : hardware_fields()) {
    HardwareSpec hardware;
    set(hardware, field, 0);
    EXPECT_EQ(hardware_errors(hardware).empty(), may_be_zero.contains(field.name)) << field.name;
  }
}

TEST(HardwareFile, SetsWhatItNamesAndKeepsTheOtherDefaults) {
  HardwareSpec expected;
  expected.name = "mine";
  expected.linear_flops = 1e12;
  expected.memory_bytes = Bytes(12'884'901'888);
  expected.ranks_per_node = 4;
  expected.link_latency_us = 0;
  expected.fused_kernels = false;
  EXPECT_EQ(hardware_from_toml("name = \"mine\"\nlinear_flops = 1e12\nmemory_bytes = \"12GiB\"\n"
                               "ranks_per_node = 4\nlink_latency_us = 0\nfused_kernels = false\n",
                               "mine.toml"),
            expected);
  EXPECT_EQ(hardware_from_toml("memory_bytes = 12884901888", "f").memory_bytes,
            Bytes(12'884'901'888));
  EXPECT_EQ(hardware_from_toml("", "f"), HardwareSpec{});
}

TEST(HardwareFile, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> kBad[] = {
      {"\nliner_flops = 1",
       "f.toml:2: key \"liner_flops\" is unknown; did you mean \"linear_flops\""},
      {"file = \"h100.toml\"", "f.toml:1: key \"file\" is unknown"},
      {"[hardware]\nlinear_flops = 1", "f.toml:1: section \"hardware\" is unknown; the keys"},
      {"name = 3", "f.toml:1: name is 3, must be a text"},
      {"linear_flops = 0", "linear_flops is 0, must be a number above 0"},
      {"linear_flops = inf", "linear_flops is inf"},
      {"linear_flops = \"fast\"", "linear_flops is \"fast\""},
      {"link_latency_us = -1", "must be a number of 0 or more"},
      {"memory_bytes = 1e9", "must be bytes above 0"},
      {"memory_bytes = \"80 apples\"", "memory_bytes is \"80 apples\""},
      {"memory_bytes = 0", "memory_bytes is 0, must be bytes above 0"},
      {"ranks_per_node = 0", "ranks_per_node is 0, must be an integer from 1 to"},
      {"ranks_per_node = 8.0", "ranks_per_node is 8"},
      {"ranks_per_node = 5000000000", "ranks_per_node is 5000000000"},
      {"fused_kernels = 1", "fused_kernels is 1, must be true or false"},
      {"linear_flops 3", "f.toml:1: not valid TOML"},
  };
  for (const auto& [text, message] : kBad)
    expect_invalid_input([&] { (void)hardware_from_toml(text, "f.toml"); }, {message});
  expect_invalid_input([] { (void)read_hardware("/nonexistent/h100.toml"); },
                       {"/nonexistent/h100.toml"});
}

TEST(HardwareFile, TheFilesOfThisProjectStateEveryFigure) {
  for (const char* name : {"h100", "h100-fa2", "h200", "a100"}) {
    const auto file =
        std::filesystem::path(SLIMPACK_SOURCE_DIR) / "hardware" / fmt::format("{}.toml", name);
    const std::string text = fmt::format("\n{}", read_file(file, "hardware file"));
    const HardwareSpec hardware = read_hardware(file);
    EXPECT_TRUE(hardware_errors(hardware).empty()) << name;
    EXPECT_FALSE(hardware.name.empty()) << name;
    EXPECT_LT(hardware.linear_flops, hardware.peak_flops) << name;
    EXPECT_LT(hardware.attention_backward_flops, hardware.attention_forward_flops) << name;
    for (const HardwareField& field : hardware_fields())
      EXPECT_NE(text.find(fmt::format("\n{} = ", field.name)), std::string::npos)
          << name << " does not state " << field.name;
  }
}

TEST(HardwareFile, TheDefaultsAreThoseOfTheH100) {
  HardwareSpec h100 =
      read_hardware(std::filesystem::path(SLIMPACK_SOURCE_DIR) / "hardware/h100.toml");
  h100.name.clear();
  EXPECT_EQ(h100, HardwareSpec{});
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
