// Tensors of whole models, into engines and out of them, and the folders that they come in.
#include "slimpack/packflow/checkpoint/model_tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using testing::engine_options;
using testing::packed_step;
using testing::random_tokens;
using testing::small_shape;
using testing::SmallStep;

Engine engine_of(const Decoder& shape, Dtype dtype = Dtype::kFp32, std::int32_t stages = 1,
                 std::uint64_t seed = 1) {
  return Engine(engine_options(packed_step(shape, dtype, stages, {Tokens(9)}, Tokens(9)), seed));
}

Decoder tied_shape() {
  Decoder shape = small_shape(2);
  shape.tie_embeddings = true;
  return shape;
}

void expect_same(Engine& engine, const NamedTensors& expected) {
  const NamedTensors actual = named_parameters(engine);
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(actual.at(name).equal(tensor.to(actual.at(name).scalar_type()))) << name;
}

TEST(ModelTensors, HaveTheNamesAndSizesOfTheShape) {
  for (const Decoder& shape : {small_shape(2), tied_shape(), small_shape(1, true)}) {
    Engine engine = engine_of(shape, Dtype::kFp32, static_cast<std::int32_t>(shape.num_layers()));
    const NamedTensors tensors = named_parameters(engine);
    const auto sizes = tensor_sizes(shape);
    ASSERT_EQ(tensors.size(), sizes.size());
    for (const auto& [name, tensor] : tensors) EXPECT_EQ(tensor.sizes(), sizes.at(name)) << name;
    EXPECT_EQ(tensors.contains("lm_head.weight"), !shape.tie_embeddings);
  }
}

TEST(ModelTensors, ComeBackIntoAnEngineWithOtherStages) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    Engine saved = engine_of(small_shape(4), dtype, 1, 1);
    Engine loaded = engine_of(small_shape(4), dtype, 4, 2);
    const NamedTensors expected = named_parameters(saved);
    load_parameters(loaded, expected, "model");
    expect_same(loaded, expected);
  }
}

TEST(ModelTensors, BeginInTheirBucketsWhereTensorsOfTheirOwnWould) {
  const auto begins_well = [](const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64 == 0;
  };
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    Decoder shape = small_shape(2, true);
    shape.kinds[0].hidden_size = 36;  // norms of 72 bytes in bf16, and heads' of 16
    Engine engine = engine_of(shape, dtype, 2);
    engine.on_ranks([&](std::int32_t rank, Communicator&, RankClock&) {
      for (StageParameters& stage : engine.parameters(rank))
        stage.for_each([&](const Parameter& p) {
          EXPECT_TRUE(begins_well(p.value)) << to_string(dtype) << " " << p.parts[0].name;
          EXPECT_TRUE(begins_well(p.gradient)) << to_string(dtype) << " " << p.parts[0].name;
        });
    });
  }
}

TEST(ModelTensors, OfEveryFloatingPointTypeAreRoundedToTheRuns) {
  Engine source = engine_of(small_shape(1), Dtype::kFp64);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    NamedTensors tensors = named_parameters(source);
    for (auto& [name, tensor] : tensors) tensor = tensor.to(type);
    Engine engine = engine_of(small_shape(1), Dtype::kFp32, 1, 2);
    load_parameters(engine, tensors, "model");
    expect_same(engine, tensors);
  }
}

TEST(ModelTensors, OfAnotherModelAreRefusedByName) {
  Engine engine = engine_of(small_shape(1));
  const NamedTensors sound = named_parameters(engine);
  const auto refuse = [&](const NamedTensors& tensors,
                          std::initializer_list<std::string_view> parts) {
    expect_invalid_input([&] { load_parameters(engine, tensors, "old.safetensors"); }, parts);
    expect_same(engine, sound);
  };
  NamedTensors tensors = sound;
  tensors.emplace("model.layers.1.extra", at::zeros({1}, at::kFloat));
  refuse(tensors, {"old.safetensors", "model.layers.1.extra", "no place"});
  tensors = sound;
  tensors.erase("model.norm.weight");
  refuse(tensors, {"old.safetensors", "model.norm.weight", "missing"});
  tensors["model.norm.weight"] = at::zeros({3}, at::kFloat);
  refuse(tensors, {"old.safetensors", "model.norm.weight", "[3]", "[48]"});
  tensors["model.norm.weight"] = at::zeros({48}, at::kLong);
  refuse(tensors, {"old.safetensors", "model.norm.weight", "Long", "floating-point"});
  tensors = sound;
  tensors.erase("lm_head.weight");
  refuse(tensors, {"lm_head.weight", "tie_word_embeddings"});
}

TEST(ModelTensors, OfATiedModelMayHaveItsHeadWhenThatIsTheEmbedding) {
  Engine engine = engine_of(tied_shape(), Dtype::kFp32, 2);
  const NamedTensors sound = named_parameters(engine);
  NamedTensors tensors = sound;
  tensors["lm_head.weight"] = sound.at("model.embed_tokens.weight").clone();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4}, at::kFloat);
  load_parameters(engine, tensors, "model");
  expect_same(engine, sound);
  tensors["lm_head.weight"][0][0] += 1;
  expect_invalid_input([&] { load_parameters(engine, tensors, "model"); },
                       {"lm_head.weight", "differs", "tie_word_embeddings"});
}

TEST(ModelTensors, OfATiedModelMayHaveItsMatrixUnderTheNameOfTheHeadAlone) {
  Engine engine = engine_of(tied_shape(), Dtype::kFp32, 2, 7);
  const NamedTensors sound = named_parameters(engine);
  NamedTensors tensors = sound;
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight") + 1;
  tensors.erase("model.embed_tokens.weight");
  load_parameters(engine, tensors, "model");
  NamedTensors expected = sound;
  expected["model.embed_tokens.weight"] = tensors.at("lm_head.weight");
  expect_same(engine, expected);
  // Not tied: the head says nothing of the embedding.
  Engine untied = engine_of(small_shape(2), Dtype::kFp32, 2);
  NamedTensors headed = named_parameters(untied);
  headed.erase("model.embed_tokens.weight");
  expect_invalid_input([&] { load_parameters(untied, headed, "model"); },
                       {"model.embed_tokens.weight is missing"});
}

TEST(ModelTensors, MayLackTheNameOfTheModelInFront) {
  for (const Decoder& shape : {small_shape(2), tied_shape()}) {
    Engine engine = engine_of(shape, Dtype::kFp32, 2);
    const NamedTensors sound = named_parameters(engine);
    NamedTensors tensors;
    for (const auto& [name, tensor] : sound)
      tensors[name.starts_with("model.") ? name.substr(6) : name] = tensor;
    Engine other = engine_of(shape, Dtype::kFp32, 2, 7);
    load_parameters(other, tensors, "model");
    expect_same(other, sound);
    // Under both names, one is unknown.
    tensors["model.norm.weight"] = sound.at("model.norm.weight");
    expect_invalid_input([&] { load_parameters(other, tensors, "model"); },
                         {"tensor norm.weight has no place"});
  }
}

/// A folder as Hugging Face writes it, in two parts.
class ModelFolder : public ::testing::Test {
 protected:
  ModelFolder()
      : engine_(engine_of(small_shape(2), Dtype::kFp32, 2)), sound_(named_parameters(engine_)) {
    NamedTensors parts[2];
    std::map<std::string, std::string> file_of;
    std::size_t next = 0;
    for (const auto& [name, tensor] : sound_) {
      const std::size_t part = next++ % 2;
      file_of[name] = part_name("model", static_cast<std::int32_t>(part), 2);
      parts[part].emplace(name, tensor);
    }
    for (std::int32_t i = 0; i < 2; ++i)
      write_safetensors(folder_ / part_name("model", i, 2), parts[i]);
    put_file(folder_ / kIndexFile, index_to_json(file_of, 0));
    put_file(folder_ / kConfigFile, decoder_to_json(small_shape(2), "float32"));
  }

  TempFolder folder_;
  Engine engine_;
  NamedTensors sound_;
};

TEST_F(ModelFolder, IsReadWholeOrInParts) {
  Engine sharded = engine_of(small_shape(2), Dtype::kFp32, 2, 7);
  load_hugging_face_model(sharded, folder_.path());
  expect_same(sharded, sound_);
  std::filesystem::remove(folder_ / kIndexFile);
  write_safetensors(folder_ / "model.safetensors", sound_);
  Engine whole = engine_of(small_shape(2), Dtype::kFp32, 1, 7);
  load_hugging_face_model(whole, folder_.path());
  expect_same(whole, sound_);
}

/// Loss and gradients of a step after loading a folder's model.
std::pair<double, NamedTensors> step_from(const std::filesystem::path& folder, Dtype dtype) {
  const SequenceLengths lengths{Tokens(9), Tokens(20)};
  const SmallStep step = packed_step(small_shape(2), dtype, 1, lengths, Tokens(29));
  Engine engine(engine_options(step));
  load_hugging_face_model(engine, folder);
  Rng rng(3);
  const double loss = engine
                          .run(step.plan, lower(step.plan, {&step.schedule, 1}),
                               random_tokens(rng, step.cost.shape, lengths), std::nullopt)
                          .loss;
  return {loss, named_gradients(engine)};
}

TEST_F(ModelFolder, TrainsToTheSameBitsWhereverItsTensorsLieInTheFile) {
  std::filesystem::remove(folder_ / kIndexFile);
  const auto file = folder_ / "model.safetensors";
  write_safetensors(file, sound_);
  const std::string bytes = get_file(file);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16}) {
    put_file(file, bytes);
    const auto [loss, gradients] = step_from(folder_.path(), dtype);
    for (const std::uint64_t shift : {8, 16, 40}) {
      const std::uint64_t longer = header + shift;  // spaces end the header
      std::string moved(reinterpret_cast<const char*>(&longer), sizeof longer);
      moved += bytes.substr(sizeof header, header) + std::string(shift, ' ');
      put_file(file, moved + bytes.substr(sizeof header + header));
      const auto [same_loss, same_gradients] = step_from(folder_.path(), dtype);
      EXPECT_EQ(same_loss, loss) << to_string(dtype) << " " << shift;
      for (const auto& [name, gradient] : gradients)
        EXPECT_TRUE(same_gradients.at(name).equal(gradient)) << to_string(dtype) << " " << name;
    }
  }
}

TEST_F(ModelFolder, WithoutAUsableIndexIsRefused) {
  const auto refuse = [&](std::string_view index, std::initializer_list<std::string_view> parts) {
    put_file(folder_ / kIndexFile, index);
    expect_invalid_input([&] { static_cast<void>(read_model_tensors(folder_.path())); }, parts);
  };
  refuse("{", {kIndexFile, "JSON"});
  refuse("{}", {kIndexFile, "weight_map"});
  refuse(R"({"weight_map": []})", {kIndexFile, "object"});
  refuse(R"({"weight_map": {"a": 1}})", {kIndexFile, "\"a\"", "string"});
  refuse(R"({"weight_map": {"a": "../a"}})", {kIndexFile, "../a", "same folder"});
  refuse(R"({"weight_map": {"a": "none.safetensors"}})", {"none.safetensors"});
  refuse(R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})",
         {"tensor a", "not in model-00001-of-00002.safetensors"});
  std::filesystem::remove(folder_ / kIndexFile);
  expect_invalid_input([&] { static_cast<void>(read_model_tensors(folder_.path())); },
                       {folder_.path().string(), "neither model.safetensors nor"});
}

TEST_F(ModelFolder, WithWeightsOfAnotherKindHasTheRemedyOfThatKind) {
  std::filesystem::remove(folder_ / kIndexFile);
  const std::pair<const char*, std::string_view> kOthers[] = {
      {"flax_model.msgpack", "of another library"},
      {"pytorch_model.bin", "has pytorch_model.bin, weights as torch.save writes them"}};
  for (const auto& [name, remedy] : kOthers) {
    put_file(folder_ / name, "{}");
    expect_invalid_input([&] { static_cast<void>(read_model_tensors(folder_.path())); },
                         {"neither model.safetensors nor", remedy, "save_pretrained"});
  }
  put_file(folder_ / "adapter_config.json", "{}");
  expect_invalid_input([&] { static_cast<void>(read_model_tensors(folder_.path())); },
                       {"has an adapter", "merge_and_unload"});
}

TEST_F(ModelFolder, WithANumberThatIsNotFiniteIsRefusedByFileAndTensor) {
  require_finite_model(folder_.path());
  EXPECT_TRUE(load_hugging_face_model(engine_, folder_.path()));
  NamedTensors part;
  const auto file = folder_ / part_name("model", 1, 2);
  for (const auto& [name, tensor] : read_safetensors(file)) part.emplace(name, tensor.clone());
  part.rbegin()->second.view(-1)[0] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(file, part);
  expect_invalid_input([&] { require_finite_model(folder_.path()); },
                       {"model-00002-of-00002.safetensors", part.rbegin()->first, "not numbers"});
  EXPECT_FALSE(load_hugging_face_model(engine_, folder_.path()));  // what loads it sees it, too
}

TEST_F(ModelFolder, OfAModelThatUsesTheSameSizesOtherwiseIsRefusedByTheField) {
  Decoder other = small_shape(2);
  other.kinds[0].num_heads = 3;  // of 16 dimensions each: the matrices have the same sizes
  other.kinds[0].num_kv_heads = 1;
  other.kinds[0].head_dim = other.kinds[0].value_dim = 16;
  put_file(folder_ / kConfigFile, decoder_to_json(other, "float32"));
  expect_invalid_input([&] { load_hugging_face_model(engine_, folder_.path()); },
                       {"config.json", "num_attention_heads is 3", "has 6"});
  other = small_shape(2);
  other.rms_norm_eps = 1e-3;
  put_file(folder_ / kConfigFile, decoder_to_json(other, "float32"));
  expect_invalid_input([&] { load_hugging_face_model(engine_, folder_.path()); },
                       {"rms_norm_eps is 0.001"});
  other = small_shape(2);
  other.max_positions = Tokens(64);  // the run's to choose
  put_file(folder_ / kConfigFile, decoder_to_json(other, "float32"));
  load_hugging_face_model(engine_, folder_.path());
}

}  // namespace
}  // namespace slimpack
