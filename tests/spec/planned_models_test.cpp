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
                    Published{"qwen3-next-80b-a3b.json", 79'674'391'296, 3.9, 2},
                    // The card's 3 do not count embedding and head.
                    Published{"qwen3.5-35b-a3b.json", 34'660'610'688, 3.45, 2},
                    Published{"nemotron-3-nano-30b-a3b.json", 31'577'937'344, 3.6, 3},
                    Published{"gpt-oss-20b.json", 20'914'757'184, 4.19, 2},
                    // The hub has 58 · 256 more: routing biases, which have no gradient.
                    Published{"deepseek-v3.json", 671'026'404'352, 37, 2}));

TEST(PlannedModel, IsReadBackFromItsOwnText) {
  for (const char* type :
       {"gemma", "gemma2", "gemma3_text", "phi3", "glm4_moe", "gpt_oss", "deepseek_v3",
        "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "kimi_linear", "bailing_hybrid",
        "olmo_hybrid", "lfm2", "lfm3", "jamba", "mamba", "falcon_mamba"}) {
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

TEST(PlannedModel, WithExpertsThatAreTrainedIsReadAsATrainedOne) {
  for (const char* type : {"mixtral", "qwen3_moe", "olmoe"}) {
    const PlannableModel model = planned(small_config(type));
    EXPECT_EQ(model.shape, shape_of(small_config(type)));
    EXPECT_TRUE(model.shape.config.empty() && model.untrainable.empty());
  }
}

TEST(PlannedModel, WithExpertsInSomeLayersIsPlannedAlone) {
  json config = small_config("qwen3_moe");
  config["mlp_only_layers"] = {1};
  const PlannableModel model = planned(config);
  EXPECT_EQ(model.untrainable,
            (std::vector<std::string>{"mlp_only_layers is [1] (layers that differ)"}));
  EXPECT_EQ(model.shape.kinds.size(), 2U);
  EXPECT_EQ(plannable_model_from_json(decoder_to_json(model.shape, "bfloat16"), "copy").shape,
            model.shape);
}

TEST(PlannedModel, CannotBeTrained) {
  expect_invalid_input([] { (void)shape_of(small_config("gemma2")); },
                       {"model_type \"gemma2\" is not supported",
                        "supported are llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe;",
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

TEST(PlannedModel, OfSeveralKindsIsPlannedAsItsText) {
  const json text = small_config("qwen3_5_text");
  const json whole{{"model_type", "qwen3_5"}, {"text_config", text}};
  EXPECT_EQ(planned(whole).shape, planned(text).shape);
  EXPECT_EQ(planned(whole).untrainable.front(),
            "model_type is \"qwen3_5\" (planned is its text_config)");
  expect_invalid_input([&] { (void)shape_of(whole); },
                       {"model_type \"qwen3_5\" is not supported", "slimpack.torch.pipeline"});
  json without = whole;
  without["text_config"].erase("hidden_size");
  expect_invalid_input([&] { (void)planned(without); },
                       {"config.json: text_config: ", "hidden_size", "missing"});
}

TEST(PlannedModel, OfSeveralKindsIsPlannedAsItsTextOfATrainedFamily) {
  json text = small_config("qwen3");
  text["tie_word_embeddings"] = false;
  json whole{{"model_type", "qwen3_asr"}, {"text_config", text}};
  EXPECT_EQ(planned(whole).shape, planned(text).shape);
  EXPECT_EQ(planned(whole).untrainable,
            (std::vector<std::string>{"model_type is \"qwen3_asr\" (planned is its text_config)"}));
  expect_invalid_input([&] { (void)shape_of(whole); }, {"model_type \"qwen3_asr\" is not supported",
                                                        "fit, plan and compare take it"});
  // transformers ties the embeddings where the whole model says so.
  whole["tie_word_embeddings"] = true;
  text["tie_word_embeddings"] = true;
  EXPECT_EQ(planned(whole).shape, planned(text).shape);
  // A language model of an unknown family is not planned.
  whole["text_config"]["model_type"] = "unknown_text";
  expect_invalid_input([&] { (void)planned(whole); },
                       {"model_type \"qwen3_asr\" is not supported"});
}

TEST(PlannedModel, HasItsFamilyAlsoUnderTheNameThatLargerModelsGiveIt) {
  const json text = small_config("qwen3");
  json named = text;
  named["model_type"] = "qwen3_vl_text";
  named["architectures"] = {"Qwen3VLForConditionalGeneration"};
  EXPECT_EQ(planned(named).shape, planned(text).shape);
  EXPECT_EQ(planned(named).untrainable,
            (std::vector<std::string>{
                "model_type is \"qwen3_vl_text\" (planned is a language model like qwen3)"}));
  const json whole{{"model_type", "qwen3_vl"}, {"text_config", named}};
  EXPECT_EQ(planned(whole).shape, planned(text).shape);
  expect_invalid_input([&] { (void)shape_of(whole); }, {"model_type \"qwen3_vl\" is not supported",
                                                        "fit, plan and compare take it"});
  // A field that the file lacks has the default of its own name: 16 heads of keys, qwen3_moe's 4.
  json moe = small_config("qwen3_moe");
  moe.update({{"model_type", "qwen3_vl_moe_text"}, {"num_attention_heads", 16}});
  moe.erase("num_key_value_heads");
  EXPECT_EQ(planned(moe).shape.kinds.front().num_kv_heads, 16);
}

TEST(PlannedModel, HasLayersByTheirParts) {
  json config = small_config("nemotron_h");
  config.erase("num_hidden_layers");
  config.update({{"hybrid_override_pattern", "M-*EM"},
                 {"mamba_num_heads", 8},
                 {"mamba_head_dim", 16},
                 {"moe_intermediate_size", 24}});
  const Decoder shape = planned(config).shape;
  EXPECT_EQ(shape.kind_of_layer, (std::vector<std::uint8_t>{0, 1, 2, 3, 0}));
  const auto parts = [&](std::size_t kind) {
    const LayerShape& layer = shape.kinds[kind];
    return std::tuple(layer.has_state(), layer.attends(), layer.dense_width, layer.experts);
  };
  EXPECT_EQ(parts(0), std::tuple(true, false, 0, 0));
  EXPECT_EQ(parts(1), std::tuple(false, false, 176, 0));
  EXPECT_EQ(parts(2), std::tuple(false, true, 0, 0));
  EXPECT_EQ(parts(3), std::tuple(false, false, 7688, 8));
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
    {"qwen3_next", "layer_types", json::array({"full_attention"}), "num_hidden_layers is 3"},
    {"qwen3_next", "layer_types",
     json::array({"full_attention", "linear_attention", "sliding_attention"}),
     "known are \"linear_attention\" and \"full_attention\""},
    {"qwen3_next", "layer_types", json::array({"full_attention", 3, "full_attention"}),
     "[1] is 3, whose cost is not known"},
    {"qwen3_next", "linear_num_value_heads", 0, "allowed are 1"},
    {"qwen3_next", "linear_num_value_heads", 17, "multiple of linear_num_key_heads"},
    {"qwen3_next", "linear_key_head_dim", 1 << 20, "linear_num_key_heads × linear_key_head_dim"},
    {"qwen3_5_text", "full_attention_interval", 0, "allowed are 1"},
    {"qwen3_5_text", "hidden_size", json(), "hidden_size"},
    {"qwen3_5_moe_text", "shared_expert_intermediate_size", -1, "allowed are 0"},
    {"kimi_linear", "linear_attn_config",
     json{{"full_attn_layers", json::array({3})}, {"kda_layers", json::array({1, 4})}},
     "has layer 4, allowed are 1 to 3"},
    {"kimi_linear", "linear_attn_config",
     json{{"full_attn_layers", json::array({3})}, {"kda_layers", json::array({1})}},
     "name layer 2 0 times"},
    {"kimi_linear", "mlp_layer_types", json::array({"dense", "both", "sparse"}), "\"both\""},
    {"olmo_hybrid", "linear_conv_kernel_dim", 1 << 21, "allowed are 1 to 1048576"},
    {"lfm2", "layer_types", json::array({"conv", "linear_attention", "conv"}),
     "known are \"conv\""},
    {"lfm2", "block_ffn_dim_multiplier", 1e9, "block_ffn_dim_multiplier"},
    {"lfm3", "layer_types", json::array({"conv", "conv"}), "has 2 entries"},
    {"mamba", "intermediate_size", 1 << 21, "allowed are 1 to 1048576"},
    {"mamba", "time_step_rank", "automatic", "integer"},
    {"jamba", "attn_layer_period", 0, "allowed are 1"},
};

TEST(RefusedToPlan, NemotronWithoutLayersOrWithUnknownOnes) {
  json config = small_config("nemotron_h");
  expect_invalid_input([&] { (void)planned(config); }, {"hybrid_override_pattern", "missing"});
  config["hybrid_override_pattern"] = "M*";
  expect_invalid_input([&] { (void)planned(config); },
                       {"hybrid_override_pattern has 2 layers, num_hidden_layers is 3"});
  config["hybrid_override_pattern"] = "M*X";
  expect_invalid_input([&] { (void)planned(config); },
                       {"the letter \"X\"", "known are M, *, - and E"});
  config["layers_block_type"] = json::array({"mamba", "moe"});
  expect_invalid_input([&] { (void)planned(config); }, {"layers_block_type has 2 entries"});
}

TEST(RefusedToPlan, Lfm2MoeWithoutItsTypes) {
  json config = small_config("lfm2_moe");
  expect_invalid_input([&] { (void)planned(config); }, {"layer_types is missing"});
}

INSTANTIATE_TEST_SUITE_P(PlannedModel, RefusedToPlan, testing::ValuesIn(kBadFields));

}  // namespace
}  // namespace slimpack
