// Model configurations (config.json).
#include "slimpack/spec/decoder.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

namespace {

void plan(const std::uint8_t* data, std::size_t size) {
  const auto model = fuzz::accepted(
      [&] { return plannable_model_from_json(fuzz::text_of(data, size), "config.json"); });
  if (!model) return;
  const Decoder& shape = model->shape;
  fuzz::require(shape.parameters() >= shape.active_parameters(), "parameters can be counted");
  fuzz::require(
      plannable_model_from_json(decoder_to_json(shape, "float32"), "written").shape == shape,
      "a decoder reads as it is written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  plan(data, size);
  const auto shape =
      fuzz::accepted([&] { return decoder_from_json(fuzz::text_of(data, size), "config.json"); });
  if (!shape) return 0;
  fuzz::require(decoder_errors(*shape).empty(), "a shape that is read is valid");
  fuzz::require(shape->parameters() > shape->kinds.front().parameters(),
                "parameters can be counted");
  fuzz::require(decoder_from_json(decoder_to_json(*shape, "bfloat16"), "written") == *shape,
                "a shape reads as it is written");
  for (const std::int32_t tp : {2, 3, 8})
    (void)fuzz::accepted([&] { return tensor_parallel_part(*shape, tp); });
  return 0;
}
