// The folder of a Hugging Face model: an index, and a part that it names.
#include <string>

#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/tensor_bytes.h"
#include "tests/support/temp_folder.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFolder folder;
  const auto [index, part] = fuzz::two_files(data, size);
  put_file(folder / kIndexFile, index);
  put_file(folder / part_name(kModelStem, 0, 2), part);
  const auto tensors = fuzz::accepted([&] { return read_model_tensors(folder.path()); });
  if (tensors)
    fuzz::require(fuzz::bytes_of(*tensors).size() >= sizeof(std::uint64_t),
                  "every tensor of a model can be written");
  return 0;
}
