// metrics.jsonl, as a report reads it.
#include "slimpack/report/training_curve.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto curve = fuzz::accepted(
      [&] { return training_curve_from_lines(fuzz::text_of(data, size), "metrics.jsonl"); });
  if (!curve) return 0;
  const auto kept = thinned(curve->steps, 2);
  fuzz::require(kept.size() <= 2, "no more points than asked for");
  fuzz::require(curve->steps.empty() || kept.front() == curve->steps.front(), "the first is kept");
  return 0;
}
