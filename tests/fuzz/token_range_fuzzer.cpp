// The note of a dataset's smallest and largest token.
#include "slimpack/data/token_range.h"

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/temp_folder.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFolder folder;
  const std::filesystem::path note = folder / "corpus.checked.json";
  const DatasetVersion version{"0123456789abcdef", 24, 1'700'000'000'000'000'000};
  put_file(note, fuzz::text_of(data, size));
  const auto range = noted_token_range(note, version);
  if (!range) return 0;
  put_file(note, token_range_to_json(*range, version));
  fuzz::require(noted_token_range(note, version) == range, "a note reads as it is written");
  return 0;
}
