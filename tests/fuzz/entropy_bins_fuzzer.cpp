// Bins of a draft's entropy, heterospec.json.
#include "slimpack/packflow/speculate/entropy_bins.h"

#include <algorithm>

#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bins = fuzz::accepted(
      [&] { return entropy_bins_from_json(fuzz::text_of(data, size), "heterospec.json"); });
  if (!bins) return 0;
  fuzz::require(entropy_bins_from_json(entropy_bins_to_json(*bins), "written") == *bins,
                "bins read as they are written");
  fuzz::require(std::ranges::is_sorted(bins->thresholds), "thresholds ascend");
  (void)fuzz::accepted([&] {
    bins->base.require_sound();
    return bins->bin(0);
  });
  return 0;
}
