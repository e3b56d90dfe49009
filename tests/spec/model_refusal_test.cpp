#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/spec/decoder.h"
#include "tests/spec/model_texts.h"

namespace slimpack {
namespace {

using nlohmann::json;

std::string error_of(std::string_view text) {
  try {
    (void)decoder_from_json(text, "config.json");
    return "accepted";
  } catch (const InvalidInput& e) {
    return e.what();
  }
}

struct BadField {
  const char* family;
  const char* key;
  json value;
  const char* reason;  ///< part of the message
};

class RefusedField : public testing::TestWithParam<BadField> {};

TEST_P(RefusedField, IsNamedWithItsReason) {
  const BadField& bad = GetParam();
  json config = small_config(bad.family);
  ASSERT_EQ(error_of(config.dump()), "accepted");
  config[bad.key] = bad.value;
  const std::string message = error_of(config.dump());
  EXPECT_EQ(message.rfind("config.json: ", 0), 0U) << message;
  EXPECT_NE(message.find(bad.key), std::string::npos) << message;
  EXPECT_NE(message.find(bad.reason), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const BadField kBadFields[] = {
    {"llama", "model_type", "lama", "did you mean \"llama\""},
    {"llama", "model_type", "gpt_oss",
     "supported are llama, qwen2, qwen3, mistral, mixtral, qwen3_moe"},
    {"llama", "model_type", "gpt2", "not supported"},
    {"llama", "model_type", 3, "string"},
    {"llama", "architectures", json::array({"LlamaForSequenceClassification"}), "LlamaForCausalLM"},
    {"llama", "architectures", "LlamaForCausalLM", "array"},
    {"llama", "num_local_experts", 8, "mixture of experts"},
    {"llama", "num_experts", 64, "mixture of experts"},
    {"llama", "n_routed_experts", 64, "mixture of experts"},
    {"mixtral", "output_router_logits", true, "load-balancing loss"},
    {"mixtral", "router_jitter_noise", 0.01, "noise in routers"},
    {"mixtral", "num_experts_per_tok", 9, "allowed are 1 to 8"},
    {"mixtral", "num_local_experts", 0, "a mixtral model has experts alone"},
    {"qwen3_moe", "mlp_only_layers", json::array({1}), "layers that differ"},
    {"qwen3_moe", "decoder_sparse_step", 2, "layers that differ"},
    {"olmoe", "clip_qkv", 8.0, "clipped queries and keys"},
    {"olmoe", "head_dim", 32, "hidden_size / num_attention_heads"},
    {"llama", "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, "rope scaling"},
    {"llama", "rope_scaling", {{"rope_type", "longrope"}, {"factor", 8.0}}, "rope scaling"},
    {"llama", "rope_scaling", {{"factor", 8.0}}, "rope scaling"},
    {"llama", "rope_scaling", {{"rope_type", "longrope"}, {"factor", 8.0}}, "cannot train"},
    {"llama", "rope_scaling", json::array({1}), "object"},
    {"llama", "rope_parameters", {{"rope_type", "dynamic"}, {"rope_theta", 1e4}}, "rope scaling"},
    {"llama", "rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}, "rope scaling"},
    {"llama", "rope_parameters", {{"partial_rotary_factor", 0.5}}, "partial rotary"},
    {"llama", "partial_rotary_factor", 0.5, "partial rotary"},
    {"llama", "rope_theta", 0, "above 0"},
    {"llama", "rope_theta", "10000", "finite number"},
    {"llama", "hidden_act", "gelu", "silu"},
    {"llama", "attention_dropout", 0.1, "dropout"},
    {"llama", "pretraining_tp", 2, "sliced projections"},
    {"llama", "is_causal", false, "causal"},
    {"llama", "quantization_config", {{"bits", 4}}, "quantized"},
    {"llama", "auto_map", {{"AutoModel", "x.Model"}}, "custom model code"},
    {"llama", "per_layer_config", {{"0", {{"head_dim", 8}}}}, "layers that differ"},
    {"llama", "hidden_size", 0, "allowed are 1"},
    {"llama", "hidden_size", -64, "allowed are 1"},
    {"llama", "hidden_size", 64.5, "integer"},
    {"llama", "hidden_size", "64", "integer"},
    {"llama", "hidden_size", nullptr, "integer"},
    {"llama", "hidden_size", 66, "multiple of num_attention_heads"},
    {"llama", "hidden_size", std::uint64_t{1} << 63, "integer"},
    {"llama", "num_hidden_layers", 1 << 20, "allowed are 1 to 4096"},
    {"llama", "num_key_value_heads", 3, "multiple"},
    {"llama", "head_dim", 15, "even"},
    {"llama", "vocab_size", std::int64_t{1} << 40, "allowed are 1 to"},
    {"llama", "max_position_embeddings", std::int64_t{1} << 40, "allowed are 1 to"},
    {"llama", "rms_norm_eps", 0.0, "above 0"},
    {"llama", "initializer_range", 2.0, "0 to 1"},
    {"llama", "tie_word_embeddings", "yes", "true or false"},
    {"qwen2", "layer_types", json::array({"full_attention", "sliding_attention"}),
     "num_hidden_layers is 3"},
    {"qwen2", "layer_types", json::array({"full_attention", "sliding_attention", "full_attention"}),
     "no sliding_window is set"},
    {"qwen3", "layer_types", json::array({"full_attention", "linear_attention", "full_attention"}),
     "full_attention"},
    {"llama", "layer_types", json::array({"sliding_attention"}), "full_attention"},
    {"mistral", "layer_types", json::array({"sliding_attention"}), "full_attention"},
    {"mistral", "sliding_window", 0, "allowed are 1"},
    {"mistral", "sliding_window", -3, "allowed are 1"},
    {"mistral", "sliding_window", "64", "integer"},
};

INSTANTIATE_TEST_SUITE_P(Decoder, RefusedField, testing::ValuesIn(kBadFields));

TEST(ModelRefusal, EveryRequiredFieldIsNamedWhenItIsMissing) {
  for (const char* key : {"model_type", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    json config = small_config("llama");
    config.erase(key);
    EXPECT_EQ(error_of(config.dump()), fmt::format("config.json: field \"{}\" is missing", key));
  }
}

TEST(ModelRefusal, FeaturesThatAreSwitchedOffAreNoObstacle) {
  json config = small_config("qwen2");
  const Decoder plain = shape_of(config);
  config.update({{"use_sliding_window", false},
                 {"sliding_window", 128},
                 {"attention_dropout", 0.0},
                 {"pretraining_tp", 1},
                 {"partial_rotary_factor", 1.0},
                 {"num_experts", nullptr},
                 {"per_layer_config", json::object()},
                 {"is_causal", true},
                 {"hidden_act", "silu"},
                 {"architectures", {"Qwen2ForCausalLM"}},
                 {"layer_types", {"full_attention", "full_attention", "full_attention"}}});
  EXPECT_EQ(shape_of(config), plain);
}

TEST(ModelRefusal, AQwenWithItsWindowInUseMustHaveAtLeastOneKey) {
  json config = small_config("qwen3");
  config["sliding_window"] = 0;
  EXPECT_EQ(error_of(config.dump()), "accepted");  // not in use
  config["use_sliding_window"] = true;
  for (const int window : {0, -1}) {
    config["sliding_window"] = window;
    EXPECT_NE(error_of(config.dump()).find("sliding_window"), std::string::npos);
    EXPECT_NE(error_of(config.dump()).find("allowed are 1"), std::string::npos);
  }
}

TEST(ModelRefusal, AllFeaturesAreNamedAtOnceWithoutARemedyThatMakesAnotherModel) {
  json config = small_config("llama");
  config["rope_scaling"] = {{"rope_type", "longrope"},
                            {"long_factor", {1.0, 1.2}},
                            {"original_max_position_embeddings", 8192}};
  config["hidden_act"] = "gelu";
  config["num_local_experts"] = 8;
  config["layer_types"] = {"sliding_attention"};
  config["architectures"] = {"LlamaForSequenceClassification"};
  const std::string message = error_of(config.dump());
  for (const char* part :
       {"rope_scaling has rope_type \"longrope\" (rope scaling)", "hidden_act is \"gelu\"",
        "num_local_experts is 8 (mixture of experts)", "layer_types has \"sliding_attention\"",
        "architectures has \"LlamaForSequenceClassification\"",
        "this version cannot train such a model"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in " << message;
  // Fields of the scaling are no further features, and their cure would be another model.
  for (const char* part : {"long_factor", "remove", "set it", "default"})
    EXPECT_EQ(message.find(part), std::string::npos) << part << " is in " << message;
}

TEST(ModelRefusal, AnotherArchitectureIsNotTakenForAMisspelling) {
  const auto expect_refused = [](const char* type, const char* hint) {
    json config = small_config("llama");
    config["model_type"] = type;
    EXPECT_EQ(error_of(config.dump()),
              fmt::format("config.json: model_type \"{}\" is not supported; supported are llama, "
                          "qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe{}",
                          type, hint));
  };
  for (const char* type : {"ministral", "llama4", "qwen3_5", "qwen2_moe", "gpt2", "falcon"})
    expect_refused(type, "");
  for (const char* type : {"gpt_oss", "glm4_moe", "gemma", "gemma3_text", "phi3", "deepseek_v3"})
    expect_refused(type, "; fit, plan and compare take it");
  for (const char* type : {"qwen3_next", "nemotron_h", "mamba2"})
    expect_refused(type, "; fit, plan and compare take it, slimpack.torch.pipeline trains it");
}

/// Other frequencies for each length, the same products.
json scaled_llama() {
  json config = small_config("llama");
  config["rope_theta"] = 500000.0;
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 8.0}};
  return config;
}

TEST(PlannableModel, RopeScalingIsNamedAndLeavesTheShapeAsItIs) {
  const PlannableModel model = plannable_model_from_json(scaled_llama().dump(), "config.json");
  EXPECT_EQ(model.untrainable,
            std::vector<std::string>{"rope_scaling has rope_type \"dynamic\" (rope scaling)"});
  json plain = scaled_llama();
  plain.erase("rope_scaling");
  EXPECT_EQ(model.shape, shape_of(plain));
  EXPECT_TRUE(plannable_model_from_json(plain.dump(), "config.json").untrainable.empty());
  EXPECT_NE(error_of(scaled_llama().dump()).find("profile, fit, plan and compare take it"),
            std::string::npos);
}

TEST(PlannableModel, WhatChangesCostsIsRefusedTogetherWithTheRest) {
  json config = scaled_llama();
  config["attention_dropout"] = 0.1;
  try {
    static_cast<void>(plannable_model_from_json(config.dump(), "config.json"));
    FAIL() << "accepted";
  } catch (const InvalidInput& e) {
    EXPECT_EQ(std::string(e.what()), error_of(config.dump()));
    EXPECT_NE(std::string(e.what()).find("attention_dropout"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("rope scaling"), std::string::npos);
  }
}

TEST(ModelRefusal, ContradictingThetasAreRefused) {
  json config = small_config("llama");
  config["rope_theta"] = 10000.0;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_NE(error_of(config.dump()).find("make them equal"), std::string::npos);
}

TEST(ModelRefusal, ABiasThatTheFamilyLacksIsAShapeError) {
  Decoder shape = shape_of(small_config("mistral"));
  shape.kinds[0].qkv_bias = true;
  EXPECT_EQ(decoder_errors(shape).size(), 1U);
  shape = shape_of(small_config("llama"));
  shape.kinds[0].qkv_bias = true;  // Llama's attention_bias is for all four projections
  shape.kinds[0].qk_norm = QkNorm::kPerHead;
  EXPECT_EQ(decoder_errors(shape).size(), 2U);
}

TEST(ModelRefusal, TextThatIsNoJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "3", "{\"model_type\": 1e999}", "\xff\xfe",
                           "{\"model_type\": \"llama\"} trailing"}) {
    const std::string message = error_of(text);
    EXPECT_EQ(message.rfind("config.json: ", 0), 0U) << text << " gave " << message;
  }
}

TEST(ModelRefusal, AMissingFileIsNamed) {
  EXPECT_THROW((void)read_decoder("/nonexistent/config.json"), InvalidInput);
}

RC_GTEST_PROP(ModelRefusal, DamagedTextIsReadOrRefusedButNeverFailsOtherwise, ()) {
  std::string text =
      small_config(*rc::gen::element<std::string>("llama", "qwen2", "qwen3", "mistral")).dump();
  const int edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits; ++i) {
    const auto at = static_cast<std::size_t>(
        *rc::gen::inRange<std::int64_t>(0, static_cast<std::int64_t>(text.size())));
    text[at] = *rc::gen::element('"', '{', '}', '[', ',', ':', '9', '-', 'e', '.', '\xff', 'n');
  }
  try {
    RC_ASSERT(decoder_from_json(text, "fuzz").parameters() > 0);
  } catch (const InvalidInput& e) {
    RC_ASSERT(std::string_view(e.what()).starts_with("fuzz"));
  }
}

}  // namespace
}  // namespace slimpack
