// The file that a run keeps of its last step (measured.json).
#include "slimpack/report/measured_step.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto step = fuzz::accepted(
      [&] { return measured_step_from_json(fuzz::text_of(data, size), "measured.json"); });
  if (!step) return 0;
  fuzz::require(measured_step_from_json(measured_step_to_json(*step), "written") == *step,
                "a measured step reads as it is written");
  // Whatever it measures, it is of this plan or refused.
  const StepPlan plan{.lengths = {Tokens(3), Tokens(2)},
                      .layout = {.layer_begin = {0, 1, 2}},
                      .replicas = {{{SequenceId(0), SequenceId(1)}, {{{}}, {{}, {}}}}}};
  (void)fuzz::accepted([&] {
    require_measured_of(plan, *step, "measured.json");
    return true;
  });
  return 0;
}
