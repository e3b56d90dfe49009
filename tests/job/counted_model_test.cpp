#include "slimpack/job/configured_model.h"

#include <gtest/gtest.h>

#include "slimpack/job/configured_cost.h"
#include "slimpack/job/step_planning.h"
#include "tests/support/counted_costs.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using testing::counted_costs;

/// A run whose cost file counts the model, with this config.json.
RunConfig run_with(const TempFolder& folder, const std::string& config_json) {
  put_file(folder / "config.json", config_json);
  put_file(folder / "cost.json", cost_to_json(counted_costs({0, 1})));
  RunConfig config;
  config.model.config = folder / "config.json";
  config.cost.file = folder / "cost.json";
  config.plan.unlimited_memory = true;
  return config;
}

TEST(CountedModel, IsThatOfTheCostFileThoughNobodyKnowsItsShape) {
  const TempFolder folder;
  const RunConfig config = run_with(
      folder, R"({"model_type": "unheard_of", "vocab_size": 10, "rope_theta": 5, "new": null})");
  const StepPlanning planning = step_planning(config, "run.toml");
  EXPECT_EQ(planning.model.shape, counted_costs({0, 1}).shape);
  EXPECT_EQ(
      planning.choices.recompute,
      (std::vector<Recompute>{Recompute::kNothing, Recompute::kElementwise, Recompute::kFull}));
  EXPECT_EQ(planning.plan({Tokens(300), Tokens(40)}).plan.lengths.size(), 2);
}

TEST(CountedModel, IsRefusedWhereTheConfigurationsDisagree) {
  const TempFolder folder;
  const RunConfig config = run_with(folder, R"({"model_type": "unheard_of", "vocab_size": 11})");
  expect_invalid_input([&] { (void)counted_model(config); },
                       {"cost.json", "config.json", "vocab_size differs"});
}

TEST(CountedModel, IsThatOfAFileThatHasItsFieldsAtTheTop) {
  const TempFolder folder;
  const RunConfig config = run_with(folder, R"({"model_type": "qwen2_5_vl", "vocab_size": 10})");
  Costs measured = counted_costs({0, 1});
  measured.shape.config = R"({"model_type":"qwen2_5_vl_text","vocab_size":10})";
  put_file(folder / "cost.json", cost_to_json(measured));
  EXPECT_EQ(counted_model(config).value().shape, measured.shape);
}

TEST(CountedModel, IsNoneWithoutACostFileThatCounts) {
  EXPECT_FALSE(counted_model(RunConfig{}).has_value());
}

TEST(CountedModel, KeepsTheRecomputationThatIsAskedFor) {
  const TempFolder folder;
  RunConfig config = run_with(folder, R"({"model_type": "unheard_of"})");
  config.plan.recompute_given = true;
  for (const Recompute asked : {Recompute::kFull, Recompute::kElementwise}) {
    config.plan.recompute = asked;
    EXPECT_EQ(step_planning(config, "run.toml").choices.recompute, std::vector<Recompute>{asked});
  }
}

TEST(CountedCost, DoesNotTellWhatPackFlowTakes) {
  const TempFolder folder;
  const RunConfig config = run_with(folder, "{}");
  Decoder trained;
  trained.set_layers(2);
  expect_invalid_input([&] { (void)configured_cost(config, trained); },
                       {"cost.json", "slimpack.torch.pipeline", "slimpack profile"});
}

}  // namespace
}  // namespace slimpack
