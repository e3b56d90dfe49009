// Plan files: plan, schedules and cost model, which are checked and simulated where they are read.
#include "slimpack/planner/planner.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file =
      fuzz::accepted([&] { return plan_file_from_json(fuzz::text_of(data, size), "plan.json"); });
  if (!file) return 0;
  const PlanFile again =
      plan_file_from_json(plan_file_to_json(file->step, file->cost, file->limits), "written");
  fuzz::require(again.step.plan == file->step.plan && again.cost == file->cost &&
                    again.step.schedules == file->step.schedules &&
                    again.step.speed == file->step.speed && again.limits == file->limits,
                "a plan file reads as it is written");
  fuzz::require(again.step.prediction.makespan == file->step.prediction.makespan,
                "the same plan is predicted to take the same time");
  return 0;
}
