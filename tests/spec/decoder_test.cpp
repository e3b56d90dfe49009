#include "slimpack/spec/decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "tests/spec/model_texts.h"

namespace slimpack {
namespace {

using nlohmann::json;

TEST(Decoder, ParametersOfLlama2_7BAreTheKnownNumber) {
  // Layer: 4·4096² + 3·4096·11008 + 2·4096 = 202,383,360; 32 of them, two matrices of 32000·4096,
  // and the last norm: 6,738,415,616, the size of Llama-2-7B.
  const json config{{"model_type", "llama"},          {"hidden_size", 4096},
                    {"intermediate_size", 11008},     {"num_hidden_layers", 32},
                    {"num_attention_heads", 32},      {"vocab_size", 32000},
                    {"max_position_embeddings", 4096}};
  const Decoder shape = shape_of(config);
  EXPECT_EQ(shape.kinds[0].parameters(), 202'383'360);
  EXPECT_EQ(shape.embedding_parameters(), 131'072'000);
  EXPECT_EQ(shape.parameters(), 6'738'415'616);
}

TEST(Decoder, ParametersOfEachFamilyCountItsBiasesAndNorms) {
  // Common: h = 64, q = 4·16, kv = 2·16, f = 176.
  // Layer: 64·(2·64 + 2·32) + 3·64·176 + 2·64 = 12288 + 33792 + 128 = 46208.
  EXPECT_EQ(shape_of(small_config("llama")).kinds[0].parameters(), 46'208);
  // Qwen2: bias on q, k, v: 64 + 2·32.
  EXPECT_EQ(shape_of(small_config("qwen2")).kinds[0].parameters(), 46'208 + 128);
  // Qwen3: head_dim 16 given, norms of q and k: 2·16.
  json qwen3 = small_config("qwen3");
  qwen3["head_dim"] = 16;
  EXPECT_EQ(shape_of(qwen3).kinds[0].parameters(), 46'208 + 32);
  // Mistral with head_dim 32 of its own: q = 128, kv = 64, so 64·(2·128 + 2·64) = 24576 of 12288.
  json mistral = small_config("mistral");
  mistral["head_dim"] = 32;
  EXPECT_EQ(shape_of(mistral).kinds[0].parameters(), 46'208 + 12'288);
  // Experts: a router 64·8, 8 · 3·64·176 for one MLP; OLMoE's norms of all heads together 64 + 32.
  EXPECT_EQ(shape_of(small_config("mixtral")).kinds[0].parameters(), 46'208 + 7 * 33'792 + 512);
  json olmoe = small_config("olmoe");
  olmoe["num_experts"] = 8;
  EXPECT_EQ(shape_of(olmoe).kinds[0].parameters(), 46'208 + 7 * 33'792 + 512 + 96);
  // Llama with all biases: q, k, v 128; output 64; MLP 2·176 + 64.
  json biased = small_config("llama");
  biased["attention_bias"] = true;
  biased["mlp_bias"] = true;
  EXPECT_EQ(shape_of(biased).kinds[0].parameters(), 46'208 + 128 + 64 + 416);
}

TEST(Decoder, TiedEmbeddingsCountOnce) {
  json config = small_config("llama");
  const std::int64_t untied = shape_of(config).parameters();
  EXPECT_EQ(untied, 3 * 46'208 + 2 * 97 * 64 + 64);
  config["tie_word_embeddings"] = true;
  EXPECT_EQ(shape_of(config).parameters(), untied - 97 * 64);
}

TEST(Decoder, MissingFieldsTakeTheFamilysDefaults) {
  const Decoder llama = shape_of(small_config("llama"));
  EXPECT_EQ(llama.kinds[0].head_dim, 16);
  EXPECT_EQ(llama.rope_theta, 10000.0);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.initializer_range, 0.02);
  EXPECT_FALSE(llama.tie_embeddings || llama.kinds[0].qkv_bias || llama.kinds[0].output_bias ||
               llama.kinds[0].mlp_bias);
  const Decoder qwen3 = shape_of(small_config("qwen3"));
  EXPECT_EQ(qwen3.kinds[0].head_dim, 128);
  EXPECT_TRUE(qwen3.kinds[0].has_qk_norm());
  EXPECT_FALSE(qwen3.kinds[0].qkv_bias);
  const Decoder qwen2 = shape_of(small_config("qwen2"));
  EXPECT_TRUE(qwen2.kinds[0].qkv_bias);
  EXPECT_FALSE(qwen2.kinds[0].output_bias);
}

TEST(Decoder, ReadsAConfigurationWithPythonsInfinityAndWritesItAsTransformersDoes) {
  std::string text = small_config("llama").dump();
  text.insert(1, R"("time_step_limit": [0.0, Infinity], )");
  const Decoder shape = decoder_from_json(text, "config.json");
  EXPECT_EQ(shape, shape_of(small_config("llama")));
  const json written = json::parse(model_config_to_json(shape, "float32", text));
  EXPECT_EQ(written.at("time_step_limit").at(1), (json{{"__float__", "Infinity"}}));
}

TEST(Decoder, MissingKeyValueHeadsDependOnTheFamily) {
  const auto kv_heads = [](const char* family, std::int64_t heads) {
    json config = small_config(family);
    config.erase("num_key_value_heads");
    config["num_attention_heads"] = heads;
    config["head_dim"] = 16;
    return shape_of(config).kinds[0].num_kv_heads;
  };
  EXPECT_EQ(kv_heads("llama", 4), 4);
  EXPECT_EQ(kv_heads("qwen2", 64), 32);
  EXPECT_EQ(kv_heads("qwen3", 64), 32);
  EXPECT_EQ(kv_heads("mistral", 16), 8);
  json null = small_config("mistral");
  null["num_key_value_heads"] = nullptr;
  EXPECT_EQ(shape_of(null).kinds[0].num_kv_heads, 4);
}

TEST(Decoder, BothSpellingsOfRopeGiveTheSameTheta) {
  json old = small_config("llama");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = nullptr;
  json scaling = small_config("llama");
  scaling["rope_theta"] = 500000;
  scaling["rope_scaling"] = {{"type", "default"}};
  json parameters = small_config("llama");
  parameters["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(shape_of(old).rope_theta, 500000.0);
  EXPECT_EQ(shape_of(scaling), shape_of(old));
  EXPECT_EQ(shape_of(parameters), shape_of(old));
}

TEST(Decoder, AMistralWindowThatNoSequenceOutgrowsIsFullAttention) {
  json config = small_config("mistral");
  const Decoder full = shape_of(config);  // default window 4096, 512 positions
  config["sliding_window"] = 512;
  EXPECT_EQ(shape_of(config), full);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(shape_of(config), full);
}

std::vector<std::int64_t> windows_of(const Decoder& decoder) {
  std::vector<std::int64_t> windows;
  for (std::size_t l = 0; l < decoder.kind_of_layer.size(); ++l)
    windows.push_back(decoder.layer(l).window);
  return windows;
}

struct WindowCase {
  const char* family;
  json fields;
  std::vector<std::int64_t> windows;  ///< of three layers
};

class WindowsOfLayers : public testing::TestWithParam<WindowCase> {};

TEST_P(WindowsOfLayers, AreThoseOfTheConfigAndOfTheFileThatIsWritten) {
  json config = small_config(GetParam().family);
  config.update(GetParam().fields);
  const Decoder decoder = shape_of(config);
  EXPECT_EQ(windows_of(decoder), GetParam().windows);
  EXPECT_EQ(decoder_from_json(decoder_to_json(decoder, "float32"), "written"), decoder);
  const std::string kept = model_config_to_json(decoder, "float32", config.dump());
  EXPECT_EQ(decoder_from_json(kept, "kept"), decoder);
}

const json kUsed = {{"use_sliding_window", true}, {"sliding_window", 64}};

json used_with(const json& more) {
  json fields = kUsed;
  fields.update(more);
  return fields;
}

// 512 positions, so a window of 512 keys changes nothing.
INSTANTIATE_TEST_SUITE_P(
    Decoder, WindowsOfLayers,
    testing::Values(
        WindowCase{"mistral", {{"sliding_window", 511}}, {511, 511, 511}},
        WindowCase{"mistral", {{"sliding_window", 1}}, {1, 1, 1}},
        WindowCase{"mistral", {{"sliding_window", 512}}, {0, 0, 0}},
        WindowCase{"mistral", {{"max_position_embeddings", 8192}}, {4096, 4096, 4096}},
        WindowCase{"mistral",
                   {{"sliding_window", 9},
                    {"layer_types", {"full_attention", "full_attention", "full_attention"}}},
                   {9, 9, 9}},
        WindowCase{"mixtral", {{"sliding_window", 64}}, {64, 64, 64}},
        WindowCase{"mixtral", {{"max_position_embeddings", 8192}}, {0, 0, 0}},
        WindowCase{"qwen3_moe", kUsed, {64, 64, 64}},
        WindowCase{"qwen3_moe", {{"sliding_window", 64}}, {0, 0, 0}},
        WindowCase{"qwen2", kUsed, {0, 0, 0}},  // from layer 28 on
        WindowCase{"qwen2", used_with({{"max_window_layers", 2}}), {0, 0, 64}},
        WindowCase{"qwen3", used_with({{"max_window_layers", 0}}), {64, 64, 64}},
        WindowCase{"qwen3",
                   used_with({{"layer_types",
                               {"sliding_attention", "full_attention", "sliding_attention"}}}),
                   {64, 0, 64}},
        WindowCase{
            "qwen3", used_with({{"sliding_window", 600}, {"max_window_layers", 1}}), {0, 0, 0}},
        WindowCase{
            "qwen2", used_with({{"sliding_window", nullptr}, {"max_window_layers", 1}}), {0, 0, 0}},
        WindowCase{"qwen2", {{"sliding_window", 64}, {"max_window_layers", 0}}, {0, 0, 0}}));

TEST(Decoder, MayHaveNoWindowsThatItsConfigCannotExpress) {
  const auto errors = [](const char* family, const std::vector<std::int64_t>& windows) {
    json config = small_config(family);
    Decoder decoder = shape_of(config);
    std::vector<LayerShape> layers;
    for (const std::int64_t window : windows) {
      layers.push_back(decoder.kinds.front());
      layers.back().window = window;
    }
    decoder.set_layers(layers);
    return decoder_errors(decoder);
  };
  EXPECT_TRUE(errors("mistral", {7, 7}).empty());
  EXPECT_TRUE(errors("qwen3", {0, 7, 0}).empty());
  EXPECT_FALSE(errors("llama", {7, 7}).empty());
  EXPECT_FALSE(errors("mistral", {7, 0}).empty());
  EXPECT_FALSE(errors("qwen2", {7, 8}).empty());
  EXPECT_FALSE(errors("qwen2", {-7}).empty());
}

TEST(Decoder, TheDemoModelIsTheOneThatItsExampleDescribes) {
  const Decoder demo = read_decoder(SLIMPACK_SOURCE_DIR "/models/demo.json");
  EXPECT_EQ(demo.max_positions, Tokens(16384));
  // 4·(128·(2·128 + 2·64) + 3·128·352 + 2·128) + 2·257·128 + 128
  EXPECT_EQ(demo.parameters(), 804'224);
}

/// In place of the dense MLP.
void give_experts(ModelFamily family, LayerShape& layer) {
  layer.dense_width = 0;
  layer.experts = *rc::gen::inRange<std::int64_t>(1, 257);
  layer.experts_per_token = *rc::gen::inRange<std::int64_t>(1, layer.experts + 1);
  layer.expert_width = *rc::gen::inRange<std::int64_t>(1, 1 << 13);
  layer.norm_topk_prob = family == ModelFamily::kMixtral || *rc::gen::arbitrary<bool>();
}

rc::Gen<Decoder> any_shape() {
  return rc::gen::exec([] {
    Decoder s;
    s.family = *rc::gen::element(ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3,
                                 ModelFamily::kMistral, ModelFamily::kMixtral,
                                 ModelFamily::kQwen3Moe, ModelFamily::kOlmoe);
    LayerShape& layer = s.kinds[0];
    layer.num_kv_heads = *rc::gen::inRange<std::int64_t>(1, 17);
    layer.num_heads = layer.num_kv_heads * *rc::gen::inRange<std::int64_t>(1, 9);
    layer.head_dim = layer.value_dim = 2 * *rc::gen::inRange<std::int64_t>(1, 129);
    layer.hidden_size = layer.num_heads * *rc::gen::inRange<std::int64_t>(1, 200);
    layer.dense_width = *rc::gen::inRange<std::int64_t>(1, 1 << 15);
    s.set_layers(*rc::gen::inRange<std::int64_t>(1, 200));
    s.vocab_size = *rc::gen::inRange<std::int64_t>(1, 1 << 20);
    s.max_positions = Tokens(*rc::gen::inRange<std::int64_t>(1, 1 << 30));
    s.rms_norm_eps = 1e-9 * *rc::gen::inRange(1, 1 << 20);
    s.rope_theta = 0.37 * *rc::gen::inRange(1, 1 << 30);
    s.initializer_range = 1e-3 * *rc::gen::inRange(0, 1000);
    s.tie_embeddings = *rc::gen::arbitrary<bool>();
    const bool chosen_bias = s.family == ModelFamily::kLlama || s.family == ModelFamily::kQwen3 ||
                             s.family == ModelFamily::kQwen3Moe || s.family == ModelFamily::kOlmoe;
    layer.output_bias = chosen_bias && *rc::gen::arbitrary<bool>();
    layer.qkv_bias = layer.output_bias || s.family == ModelFamily::kQwen2;
    layer.mlp_bias = s.family == ModelFamily::kLlama && *rc::gen::arbitrary<bool>();
    if (s.family == ModelFamily::kQwen3 || s.family == ModelFamily::kQwen3Moe)
      layer.qk_norm = QkNorm::kPerHead;
    if (s.family == ModelFamily::kOlmoe) {
      layer.qk_norm = QkNorm::kWhole;
      layer.hidden_size = layer.q_width();
    }
    if (s.family >= ModelFamily::kMixtral) give_experts(s.family, layer);
    return s;
  });
}

RC_GTEST_PROP(Decoder, WrittenShapesAreReadBackUnchanged, ()) {
  const Decoder shape = *any_shape();
  RC_ASSERT(decoder_errors(shape) == std::vector<std::string>{});
  RC_ASSERT(decoder_from_json(decoder_to_json(shape, "bfloat16"), "copy") == shape);
}

TEST(Decoder, WrittenConfigNamesModelAndBothSpellings) {
  const json out = json::parse(decoder_to_json(shape_of(small_config("qwen3")), "bfloat16"));
  EXPECT_EQ(out["architectures"], json::array({"Qwen3ForCausalLM"}));
  EXPECT_EQ(out["torch_dtype"], "bfloat16");
  EXPECT_EQ(out["dtype"], "bfloat16");
  EXPECT_EQ(out["rope_theta"], 10000.0);
  EXPECT_EQ(out["rope_parameters"]["rope_theta"], 10000.0);
  EXPECT_EQ(out["head_dim"], 128);
}

TEST(Decoder, AWrittenConfigKeepsWhatItsSourceSaysOfOtherThings) {
  const Decoder shape = shape_of(small_config("qwen2"));
  json source = small_config("qwen2");
  source.update({{"hidden_size", 4096},  // of another model: the shape counts
                 {"rope_scaling", {{"rope_type", "yarn"}}},
                 {"dtype", "float16"},
                 {"transformers_version", "4.0.0"},
                 {"bos_token_id", 7},
                 {"eos_token_id", {8, 9}},
                 {"pad_token_id", nullptr},
                 {"task", {{"of", "nobody"}}}});
  const std::string text = model_config_to_json(shape, "bfloat16", source.dump());
  EXPECT_EQ(decoder_from_json(text, "written"), shape);
  json expected = json::parse(decoder_to_json(shape, "bfloat16"));
  expected.update({{"bos_token_id", 7},
                   {"eos_token_id", {8, 9}},
                   {"pad_token_id", nullptr},
                   {"task", {{"of", "nobody"}}}});
  EXPECT_EQ(json::parse(text), expected);
  // The text that a model writes is a source from which it writes the same text.
  EXPECT_EQ(json::parse(model_config_to_json(shape, "bfloat16", text)), expected);
}

TEST(Decoder, ASourceThatSaysNothingLeavesAConfigWithoutTokenIds) {
  const Decoder shape = shape_of(small_config("llama"));
  EXPECT_EQ(model_config_to_json(shape, "float32", "{}"), decoder_to_json(shape, "float32"));
  EXPECT_THROW((void)model_config_to_json(shape, "float32", "[]"), InvalidInput);
}

}  // namespace
}  // namespace slimpack
