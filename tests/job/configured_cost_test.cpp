#include "slimpack/job/configured_cost.h"

#include <gtest/gtest.h>

#include "slimpack/cost/cost_model.h"
#include "slimpack/job/configured_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

TEST(ConfiguredCost, OfAFileHasThePeakOfTheHardwareBesideIt) {
  const TempFolder folder;
  put_file(folder / "config.json",
           R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
               "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 31,
               "max_position_embeddings": 4096})");
  RunConfig config;
  config.model.config = folder / "config.json";
  config.cost.file = folder / "cost.json";
  const Decoder shape = trained_model(config);
  Costs measured = cost_from_hardware(shape, Dtype::kFp32, HardwareSpec{});
  const auto peak = [&](double known) {
    measured.device.peak_flops = known;
    put_file(config.cost.file, cost_to_json(measured));
    return configured_cost(config, shape)->device.peak_flops;
  };
  EXPECT_EQ(peak(0), 0);  // nobody knows it
  config.hardware = HardwareSpec{};
  config.hardware->peak_flops = 5e12;
  EXPECT_EQ(peak(0), 5e12);
  EXPECT_EQ(peak(7e12), 7e12);  // what the file knows stays
}

/// A run on H100s, on GPUs, of a model whose layers have maps of 16 and 24 numbers.
struct AdapterRun {
  const TempFolder folder;
  RunConfig config;
  Decoder shape;

  AdapterRun() {
    config.model.config = folder / "config.json";
    put_file(config.model.config,
             R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
                 "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 31,
                 "max_position_embeddings": 4096})");
    shape = trained_model(config);
    config.hardware = HardwareSpec{};
    config.train.device = DeviceKind::kCuda;
    config.train.dtype = Dtype::kBf16;
    config.model.adapter_rank = 4;
  }
};

TEST(ConfiguredCost, CountsAdaptersOfTheRankThatIsAskedFor) {
  AdapterRun run;
  // q, k, v and o 16 + 16, gate, up and down 16 + 24.
  const std::int64_t widths = 4 * 32 + 3 * 40;
  const Costs adapted = *configured_cost(run.config, run.shape);
  EXPECT_EQ(adapted.trained->kinds.front().parameters, 4 * widths);
  run.config.model.adapter_rank = 0;
  const Costs whole = *configured_cost(run.config, run.shape);
  EXPECT_FALSE(whole.trained);
  // The head's gradient is a third of its products, on a GPU whose kernels are fused, too.
  EXPECT_LT(adapted.ends.head_backward.per_token, whole.ends.head_backward.per_token * 0.667);
  EXPECT_GT(adapted.ends.head_backward.per_token, 0);
}

TEST(ConfiguredCost, TakesNoAdaptersBesideAFileNorPackFlowsFromOne) {
  AdapterRun run;
  const Costs adapted = *configured_cost(run.config, run.shape);
  run.config.cost.file = run.folder / "cost.json";
  put_file(run.config.cost.file, cost_to_json(adapted));
  expect_invalid_input(
      [&] { (void)configured_cost(run.config, run.shape); },
      {"model.adapter_rank is 4", "cost.json was measured", "leave adapter_rank out"});
  run.config.model.adapter_rank = 0;
  expect_invalid_input(
      [&] { (void)configured_cost(run.config, run.shape); },
      {"cost.json: counts adapters", "PackFlow does not run", "model.adapter_rank"});
}

}  // namespace
}  // namespace slimpack
