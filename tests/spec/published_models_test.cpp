// The shapes in models/ against published figures.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "slimpack/spec/decoder.h"

namespace slimpack {
namespace {

struct Published {
  const char* file;
  std::int64_t parameters;  ///< as the model cards count them
  std::int64_t max_positions;
};

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasThePublishedParametersAndContext) {
  const auto& [file, parameters, max_positions] = GetParam();
  const Decoder shape = read_decoder(std::filesystem::path(SLIMPACK_SOURCE_DIR) / "models" / file);
  EXPECT_EQ(shape.parameters(), parameters);
  EXPECT_EQ(shape.max_positions, Tokens(max_positions));
  EXPECT_FALSE(shape.tie_embeddings);
  EXPECT_EQ(shape.kinds[0].has_qk_norm(), shape.family == ModelFamily::kQwen3);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModel,
                         testing::Values(Published{"llama-2-7b.json", 6'738'415'616, 4096},
                                         Published{"llama-2-13b.json", 13'015'864'320, 4096},
                                         Published{"llama-2-70b.json", 68'976'648'192, 4096},
                                         Published{"llama-3-8b.json", 8'030'261'248, 8192},
                                         Published{"llama-3-70b.json", 70'553'706'496, 8192},
                                         Published{"qwen3-8b.json", 8'190'735'360, 40960},
                                         Published{"qwen3-32b.json", 32'762'123'264, 40960}));

}  // namespace
}  // namespace slimpack
