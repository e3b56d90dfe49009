#include "slimpack/job/configured_cost.h"

#include <gtest/gtest.h>

#include "slimpack/cost/cost_model.h"
#include "slimpack/job/configured_model.h"
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

}  // namespace
}  // namespace slimpack
