#include "slimpack/spec/rope_scaling.h"

#include <gtest/gtest.h>

#include "slimpack/spec/decoder.h"
#include "tests/spec/model_texts.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using nlohmann::json;

/// Llama 3.1's.
json llama3() {
  return {{"rope_type", "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192}};
}

json yarn() {
  return {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
}

json with_rope(const json& rope, const char* key = "rope_scaling") {
  json config = small_config("llama");
  config[key] = rope;
  return config;
}

RopeScaling scaling_of(const json& rope) {
  return shape_of(with_rope(rope)).rope_scaling;
}

TEST(RopeScaling, OfLlama3HasItsFields) {
  const RopeScaling expected{.type = RopeType::kLlama3,
                             .factor = 8,
                             .original_max_positions = 8192,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4};
  EXPECT_EQ(scaling_of(llama3()), expected);
  // transformers 5 spells it otherwise; older files have "type".
  EXPECT_EQ(shape_of(with_rope(llama3(), "rope_parameters")).rope_scaling, expected);
  json old = llama3();
  old["type"] = old["rope_type"];
  old.erase("rope_type");
  EXPECT_EQ(scaling_of(old), expected);
}

TEST(RopeScaling, OfYarnHasTheDefaultsOfTransformers) {
  const RopeScaling scaling = scaling_of(yarn());
  EXPECT_EQ(scaling.beta_fast, 32);
  EXPECT_EQ(scaling.beta_slow, 1);
  EXPECT_TRUE(scaling.truncate);
  EXPECT_DOUBLE_EQ(scaling.attention_factor, 1.1386294361119891);  // 0.1·ln 4 + 1
  json given = yarn();
  given["attention_factor"] = 0.5;
  EXPECT_EQ(scaling_of(given).attention_factor, 0.5);
  json deepseek = yarn();
  deepseek.update({{"mscale", 1.0}, {"mscale_all_dim", 1.0}});
  EXPECT_EQ(scaling_of(deepseek).attention_factor, 1);
  json one = yarn();
  one["mscale"] = 3.0;  // alone it says nothing
  EXPECT_EQ(scaling_of(one), scaling);
}

TEST(RopeScaling, OfYarnFollowsFromThePositionsWhereTheFileLeavesThemOut) {
  json no_factor = yarn();
  no_factor["factor"] = nullptr;
  EXPECT_EQ(scaling_of(no_factor), scaling_of(yarn()));  // 512 / 128
  json no_positions = yarn();
  no_positions.erase("original_max_position_embeddings");
  EXPECT_EQ(scaling_of(no_positions).original_max_positions, 512);
}

TEST(RopeScaling, IsReadBackAsItWasWritten) {
  json full = yarn();
  full.update({{"beta_fast", 24}, {"beta_slow", 0.5}, {"attention_factor", 1.3}});
  full["truncate"] = false;
  for (const json& rope : {llama3(), yarn(), full, json{{"type", "linear"}, {"factor", 2}}}) {
    const Decoder shape = shape_of(with_rope(rope));
    const json written = json::parse(decoder_to_json(shape, "float32"));
    EXPECT_EQ(shape_of(written), shape) << written;
    // transformers 4 reads the first of these alone, transformers 5 either.
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      json only = written;
      only.erase(key);
      EXPECT_EQ(shape_of(only), shape) << written;
    }
    EXPECT_EQ(written["rope_parameters"]["rope_theta"], 10000.0);
  }
}

TEST(RopeScaling, OfTheFileGivesWayWhereTheRunChoosesAnother) {
  const Decoder shape = shape_of(with_rope(yarn()));
  const std::string source = with_rope(llama3()).dump();
  EXPECT_EQ(decoder_from_json(model_config_to_json(shape, "float32", source), "written"), shape);
}

TEST(RopeScaling, ThatCannotBeTrainedStaysPlannable) {
  for (const char* type : {"dynamic", "longrope", "su"}) {
    const json config = with_rope({{"rope_type", type}, {"factor", 8.0}});
    const PlannableModel model = plannable_model_from_json(config.dump(), "config.json");
    EXPECT_EQ(model.shape, shape_of(small_config("llama")));
    EXPECT_EQ(model.untrainable, std::vector<std::string>{fmt::format(
                                     "rope_scaling has rope_type \"{}\" (rope scaling)", type)});
  }
}

struct BadRope {
  json (*rope)();
  const char* key;
  json value;
  const char* reason;  ///< part of the message
};

class RefusedRope : public testing::TestWithParam<BadRope> {};

TEST_P(RefusedRope, IsNamedWithItsReason) {
  const BadRope& bad = GetParam();
  json rope = bad.rope();
  rope[bad.key] = bad.value;
  expect_invalid_input([&] { (void)shape_of(with_rope(rope)); }, {bad.key, bad.reason});
}

const BadRope kBadRopes[] = {
    {llama3, "rope_type", 3, "string"},
    {llama3, "type", "linear", "make them equal"},
    {llama3, "factor", 0.5, "1 or more"},
    {llama3, "factor", "8", "finite number"},
    {llama3, "low_freq_factor", nullptr, "finite number"},
    {llama3, "low_freq_factor", 0, "above 0"},
    {llama3, "high_freq_factor", 1.0, "above 1"},
    {llama3, "original_max_position_embeddings", 0, "allowed are 1"},
    {llama3, "original_max_position_embeddings", 8192.5, "integer"},
    {llama3, "original_max_position_embeddings", std::int64_t{1} << 40, "1 to"},
    {llama3, "beta_fast", 24, "cannot train"},  // no key of Llama 3's
    {llama3, "low_freq_factors", 1.0, "cannot train"},
    {yarn, "beta_slow", 0, "above 0"},
    {yarn, "beta_fast", 0.5, "or more"},
    {yarn, "attention_factor", -1.0, "above 0"},
    {yarn, "mscale", "1", "finite number"},
    {yarn, "truncate", 1, "true or false"},
};

INSTANTIATE_TEST_SUITE_P(RopeScaling, RefusedRope, testing::ValuesIn(kBadRopes));

TEST(RopeScaling, OfTwoKindsInOneFileIsRefused) {
  json config = with_rope(llama3());
  config["rope_parameters"] = yarn();
  expect_invalid_input([&] { (void)shape_of(config); },
                       {"rope_scaling and rope_parameters differ"});
}

TEST(RopeScaling, OfYarnNeedsAThetaAboveOne) {
  json config = with_rope(yarn());
  config["rope_theta"] = 1.0;
  expect_invalid_input([&] { (void)shape_of(config); }, {"rope_theta is 1, must be above 1"});
}

}  // namespace
}  // namespace slimpack
