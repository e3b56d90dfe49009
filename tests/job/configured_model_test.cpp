#include "slimpack/job/configured_model.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// A run on a model of 64 positions, with `more` in its config.json.
RunConfig run_on(const TempFolder& folder, const std::string& more, std::int64_t context) {
  put_file(folder / "config.json",
           R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 50,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu",
  "tie_word_embeddings": false)" +
               more + "}");
  RunConfig config;
  config.model.config = folder / "config.json";
  config.data.context = Tokens(context);
  return config;
}

TEST(ConfiguredModel, IsRefusedForDocumentsBeyondItsPositions) {
  const TempFolder folder;
  EXPECT_EQ(trained_model(run_on(folder, "", 64)).max_positions, Tokens(64));
  for (const auto& read : {+[](const RunConfig& c) { (void)trained_model(c); },
                           +[](const RunConfig& c) { (void)planned_model(c); }})
    expect_invalid_input([&] { read(run_on(folder, "", 65)); },
                         {"data.context is 65 tokens", "max_position_embeddings = 64"});
}

TEST(ConfiguredModel, IsTrainedWithTheOptimizerSharedOutAndPlannedWithMore) {
  const TempFolder folder;
  RunConfig config = run_on(folder, "", 64);
  config.parallel.zero = 3;
  EXPECT_EQ(planned_model(config).shape.num_layers(), 2);
  expect_invalid_input([&] { (void)trained_model(config); },
                       {"parallel.zero is 3", "trains with 1", "use 1"});
}

TEST(ConfiguredModel, WithAdaptersIsPlannedAlone) {
  const TempFolder folder;
  RunConfig config = run_on(folder, "", 64);
  config.model.adapter_rank = 4;
  const PlannableModel model = planned_model(config);
  EXPECT_EQ(model.shape.num_layers(), 2);
  for (const auto& run : {+[](const RunConfig& c) { (void)trained_model(c); },
                          +[](const RunConfig& c) { (void)measured_shape(c, planned_model(c)); }})
    expect_invalid_input([&] { run(config); },
                         {"model.adapter_rank is 4", "PackFlow trains all weights",
                          "slimpack.torch.pipeline", "set 0"});
}

TEST(ConfiguredModel, ThatCannotBeTrainedIsPlannedWithTheNamesOfWhatKeepsItFromThat) {
  const TempFolder folder;
  const RunConfig config = run_on(folder, R"(, "rope_scaling": {"rope_type": "dynamic"})", 64);
  EXPECT_THROW((void)trained_model(config), InvalidInput);
  const PlannableModel model = planned_model(config);
  EXPECT_EQ(model.shape.num_layers(), 2);
  ASSERT_EQ(model.untrainable.size(), 1);
  EXPECT_NE(model.untrainable[0].find("dynamic"), std::string::npos);
}

}  // namespace
}  // namespace slimpack
