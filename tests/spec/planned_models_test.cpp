// Decoders that are planned but not trained: tests/cost/decoder_test.py compares them with
// transformers.
#include <gtest/gtest.h>

#include <filesystem>

#include "slimpack/spec/decoder.h"
#include "tests/spec/model_texts.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using nlohmann::json;

PlannableModel planned(const json& config) {
  return plannable_model_from_json(config.dump(), "config.json");
}

struct Published {
  const char* file;
  std::int64_t parameters;  ///< as the files on the Hugging Face hub count them
  double active;            ///< billions, as the model cards say; 0 = all
  std::size_t kinds;
};

class PublishedDecoder : public testing::TestWithParam<Published> {};

TEST_P(PublishedDecoder, HasThePublishedParameters) {
  const auto& [file, parameters, active, kinds] = GetParam();
  const Decoder shape =
      read_plannable_model(std::filesystem::path(SLIMPACK_SOURCE_DIR) / "models" / file).shape;
  EXPECT_EQ(shape.parameters(), parameters);
  EXPECT_EQ(shape.kinds.size(), kinds);
  const double used = static_cast<double>(shape.active_parameters()) / 1e9;
  EXPECT_NEAR(used, active > 0 ? active : static_cast<double>(parameters) / 1e9, 0.05 * used);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PublishedDecoder,
    testing::Values(Published{"llama-3.1-8b.json", 8'030'261'248, 0, 1},
                    Published{"llama-3.1-70b.json", 70'553'706'496, 0, 1},
                    Published{"qwen2.5-7b.json", 7'615'616'512, 0, 1},
                    Published{"mistral-7b-v0.3.json", 7'248'023'552, 0, 1},
                    Published{"gemma-2-9b.json", 9'241'705'984, 0, 2},
                    Published{"phi-3-mini-4k.json", 3'821'079'552, 0, 1},
                    Published{"mixtral-8x7b.json", 46'702'792'704, 12.9, 1},
                    Published{"qwen3-30b-a3b.json", 30'532'122'624, 3.3, 1},
                    Published{"olmoe-1b-7b-0924.json", 6'919'161'856, 1.3, 1},
                    // The card has 3.6, without the embedding.
                    Published{"gpt-oss-20b.json", 20'914'757'184, 4.19, 2},
                    // The hub has 58 · 256 more: routing biases, which have no gradient.
                    Published{"deepseek-v3.json", 671'026'404'352, 37, 2}));

TEST(PlannedModel, IsReadBackFromItsOwnText) {
  for (const char* type : {"gemma", "gemma2", "gemma3_text", "phi3", "mixtral", "qwen3_moe",
                           "olmoe", "glm4_moe", "gpt_oss", "deepseek_v3"}) {
    const PlannableModel model = planned(small_config(type));
    EXPECT_EQ(model.untrainable.front(), fmt::format("model_type is \"{}\"", type));
    const std::string text = decoder_to_json(model.shape, "bfloat16");
    EXPECT_EQ(plannable_model_from_json(text, "written").shape, model.shape);
    EXPECT_EQ(json::parse(text)["dtype"], "bfloat16");
  }
}

TEST(PlannedModel, OfAFamilyThatIsTrainedIsReadAsBefore) {
  const Decoder shape = planned(small_config("qwen3")).shape;
  EXPECT_EQ(shape, shape_of(small_config("qwen3")));
  EXPECT_EQ(shape.kinds.size(), 1U);
  EXPECT_TRUE(shape.config.empty());
}

TEST(PlannedModel, WithWindowsOfATrainedFamilyIsReadAsBefore) {
  json config = small_config("qwen2");
  config.update({{"use_sliding_window", true}, {"sliding_window", 128}, {"max_window_layers", 2}});
  const PlannableModel model = planned(config);
  EXPECT_EQ(model.shape, shape_of(config));
  EXPECT_EQ(model.shape.kinds.size(), 2U);
  EXPECT_TRUE(model.untrainable.empty());
}

TEST(PlannedModel, CannotBeTrained) {
  expect_invalid_input(
      [] { (void)shape_of(small_config("gemma2")); },
      {"model_type \"gemma2\" is not supported", "supported are llama, qwen2, qwen3, mistral",
       "fit, plan and compare take it"});
}

TEST(PlannedModel, SaysWhatPlanningLeavesOut) {
  json config = small_config("deepseek_v3");
  config["num_nextn_predict_layers"] = 1;
  config["quantization_config"] = {{"quant_method", "fp8"}};
  EXPECT_EQ(planned(config).untrainable,
            (std::vector<std::string>{
                "model_type is \"deepseek_v3\"",
                "quantization_config is {\"quant_method\":\"fp8\"} (planned in train.dtype)",
                "num_nextn_predict_layers is 1 (planned without these layers)"}));
}

struct BadField {
  const char* family;
  const char* key;
  json value;
  const char* reason;  ///< part of the message
};

class RefusedToPlan : public testing::TestWithParam<BadField> {};

TEST_P(RefusedToPlan, IsNamedWithItsReason) {
  const BadField& bad = GetParam();
  json config = small_config(bad.family);
  ASSERT_GT(planned(config).shape.parameters(), 0);
  config[bad.key] = bad.value;
  expect_invalid_input([&] { (void)planned(config); }, {"config.json: ", bad.key, bad.reason});
}

const BadField kBadFields[] = {
    {"gemma2", "layer_types", json::array({"full_attention"}), "num_hidden_layers is 3"},
    {"gemma2", "layer_types",
     json::array({"full_attention", "linear_attention", "sliding_attention"}),
     "whose cost is not known"},
    {"gemma2", "attention_dropout", 0.1, "dropout"},
    {"gemma2", "sliding_window", -1, "0"},
    {"gemma2", "architectures", json::array({"Gemma2ForSequenceClassification"}),
     "Gemma2ForCausalLM"},
    {"gemma3_text", "use_bidirectional_attention", true, "bidirectional"},
    {"phi3", "resid_pdrop", 0.1, "dropout"},
    {"mixtral", "num_experts_per_tok", 9, "allowed are 1 to 8"},
    {"mixtral", "num_key_value_heads", 3, "multiple"},
    {"qwen3_moe", "num_experts", 1 << 20, "allowed are 0 to 1024"},
    {"qwen3_moe", "mlp_only_layers", json::array({"a"}), "integer"},
    {"qwen3_moe", "moe_intermediate_size", 0, "allowed are 1"},
    {"olmoe", "clip_qkv", 8.0, "clipped"},
    {"deepseek_v3", "kv_lora_rank", std::int64_t{1} << 40, "kv_lora_rank"},
    {"deepseek_v3", "moe_layer_freq", 2, "layers that differ"},
    {"gpt_oss", "num_hidden_layers", 1 << 20, "num_hidden_layers"},
    {"gpt_oss", "hidden_size", "64", "integer"},
};

INSTANTIATE_TEST_SUITE_P(PlannedModel, RefusedToPlan, testing::ValuesIn(kBadFields));

}  // namespace
}  // namespace slimpack
