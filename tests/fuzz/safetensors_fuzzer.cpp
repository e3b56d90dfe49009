// Safetensors files.
#include "slimpack/packflow/checkpoint/safetensors.h"

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/tensor_bytes.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensors = fuzz::accepted([&] {
    return parse_safetensors(std::as_bytes(std::span(data, size)), nullptr, "model.safetensors");
  });
  if (!tensors) return 0;
  const std::vector<std::byte> written = fuzz::bytes_of(*tensors);
  const NamedTensors again = parse_safetensors(written, nullptr, "written");
  fuzz::require(fuzz::bytes_of(again) == written, "tensors read as they are written");
  return 0;
}
