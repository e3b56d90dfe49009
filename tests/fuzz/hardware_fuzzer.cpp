// Hardware files.
#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/run_config_fields.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

namespace {

/// The figures as a hardware file has them.
std::string file_of(const HardwareSpec& hardware) {
  RunConfig config;
  config.hardware = hardware;
  std::string text;
  for (const ConfigField& field : config_fields())
    if (field.section == "hardware" && field.key != "file") text += field.print(config) + "\n";
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto hardware =
      fuzz::accepted([&] { return hardware_from_toml(fuzz::text_of(data, size), "gpu.toml"); });
  if (!hardware) return 0;
  fuzz::require(hardware_errors(*hardware).empty(), "figures that are read follow their rules");
  hardware->name.clear();  // is printed for people, shortened
  fuzz::require(hardware_from_toml(file_of(*hardware), "written") == *hardware,
                "figures read as they are written");
  const Decoder shape{.vocab_size = 257,
                      .max_positions = Tokens(1024),
                      .kinds = {{.hidden_size = 64,
                                 .num_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 16,
                                 .value_dim = 16,
                                 .dense_width = 128}},
                      .kind_of_layer = {0, 0}};
  const Costs cost = cost_from_hardware(shape, Dtype::kBf16, *hardware, 2, 8);
  (void)fuzz::accepted([&] { return cost_from_json(cost_to_json(cost), "cost.json"); });
  return 0;
}
