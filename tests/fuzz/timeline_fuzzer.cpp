// Timelines, and what is drawn and counted of them.
#include "slimpack/trace/timeline.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto timeline =
      fuzz::accepted([&] { return timeline_from_json(fuzz::text_of(data, size), "trace.json"); });
  if (!timeline) return 0;
  fuzz::require(timeline_from_json(timeline_to_json(*timeline), "written") == *timeline,
                "a timeline reads as it is written");
  constexpr std::int32_t kDrawnRanks = 64;  // output grows with ranks, whether they do anything
  if (timeline->ranks > kDrawnRanks) return 0;
  const TimelineMetrics metrics = metrics_of(*timeline);
  fuzz::require(metrics.bubble_ratio >= -1e-9 && metrics.worst_bubble <= 1,
                "a rank is never busier than the step is long");
  (void)to_text(*timeline, 20);
  (void)to_chrome_trace({*timeline});
  return 0;
}
